"""Commands that tell a process something: decisions, signals, limits."""
