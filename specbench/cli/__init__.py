"""Commands: parse, call one workflow, render its events, exit. No branching on the domain."""
