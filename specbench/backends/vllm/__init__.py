"""vLLM's server."""
