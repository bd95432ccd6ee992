"""Frozen types of the nouns; every other layer speaks in them."""
