"""Plots, tables, Markdown and HTML findings, all generated from the tidy tables."""
