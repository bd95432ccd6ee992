"""What people see: one renderer a command."""
