"""Data sets: the calls of many processes as rows, in files that other programs read."""
