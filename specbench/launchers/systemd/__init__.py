"""A server as a systemd unit of the user's, changed by a drop-in for as long as a block lasts."""
