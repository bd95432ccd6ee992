"""One file a format that a recording is written in."""
