"""Read the histories of processes, for commands."""
