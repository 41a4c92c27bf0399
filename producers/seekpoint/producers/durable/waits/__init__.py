"""Wait for gates, timers, mail, child processes and shared values."""
