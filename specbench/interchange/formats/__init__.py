"""One file a format: its field names, and which definition each of them has."""
