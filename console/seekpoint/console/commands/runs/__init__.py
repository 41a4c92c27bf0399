"""Commands that start runs and see to their ends."""
