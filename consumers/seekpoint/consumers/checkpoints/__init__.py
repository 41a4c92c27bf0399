"""Checkpoints: when they are due, how they are written and read, and what trimming deletes."""
