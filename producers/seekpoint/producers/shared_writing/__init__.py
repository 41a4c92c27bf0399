"""Shared writing: several nodes write to one process, each write is confirmed, and conflicts are typed errors."""
