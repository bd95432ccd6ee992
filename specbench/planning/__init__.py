"""Pure decisions: expand the matrix, order cells into blocks, say what is left to do."""
