"""Any server with an OpenAI-compatible API: attached to, never started."""
