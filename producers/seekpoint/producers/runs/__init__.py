"""Runs that a program submits: their submissions, the table of schedules, how they ended and why they failed."""
