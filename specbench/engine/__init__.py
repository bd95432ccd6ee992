"""The embedded reference engine: an island that shares no code with what judges it."""
