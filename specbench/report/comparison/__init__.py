"""A comparison as people read it: one sentence, one table, few notes; in text, CSV, Markdown."""
