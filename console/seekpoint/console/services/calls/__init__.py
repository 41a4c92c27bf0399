"""Calls that commands make to clients and processes."""
