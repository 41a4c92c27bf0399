"""The embedded log: a journal in one SQLite file, for the programs of one machine."""
