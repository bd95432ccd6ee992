"""Is a speculative server lossless? Emitted tokens against the target's own conditionals."""
