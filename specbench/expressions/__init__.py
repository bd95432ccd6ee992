"""The small, safe language of conditions and of templates in flags and environment."""
