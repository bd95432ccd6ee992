"""Files of other tools, read into tidy rows and written from recordings."""
