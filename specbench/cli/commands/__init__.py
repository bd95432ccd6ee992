"""One file a command: parse, call one workflow, show, exit."""
