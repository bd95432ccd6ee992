"""Start a service on a host, wait out its load, stop it, and leave everything as it was."""
