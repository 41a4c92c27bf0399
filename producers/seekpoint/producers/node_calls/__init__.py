"""The calls of a node on a process that nobody has to open: append, read, list, control, rewind, fork, promote."""
