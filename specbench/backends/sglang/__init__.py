"""What is known of SGLang by version: wire format, launch flags, log grammar; no I/O."""
