"""Claims: open a process, keep heartbeats, prove that a process is new."""
