"""What one run leaves on disk: journal, sealed trials, tidy tables, schema versions."""
