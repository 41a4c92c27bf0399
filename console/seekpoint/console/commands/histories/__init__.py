"""Commands on the history of a process."""
