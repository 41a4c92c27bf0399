"""The port to the log, its in-memory implementation, and what a journal says about itself."""
