"""The battery without scores: everything is drawn, and compared with plain draws."""
