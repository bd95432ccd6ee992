"""The engine's server: SGLang's launch flags, start-up, HTTP surface, scheduler and clock."""
