"""Drive load and measure it faithfully; the only asyncio."""
