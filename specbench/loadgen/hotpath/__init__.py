"""The measured path: what runs in a worker while replies arrive."""
