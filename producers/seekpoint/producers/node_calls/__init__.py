"""What a node does with a process that nobody has to open: append, read, list, control, rewind, fork, promote."""
