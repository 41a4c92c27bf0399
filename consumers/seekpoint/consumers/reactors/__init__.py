"""Reactors: a user's functions that are called for entries of the journal, at least once each."""
