"""Match calls with their history, and hold back answers until they are due."""
