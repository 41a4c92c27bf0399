"""Heartbeats: what nodes say about themselves, and which of them are dead."""
