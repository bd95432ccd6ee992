"""What runs on the host itself: sent as source over standard input; standard library only."""
