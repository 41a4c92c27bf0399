"""Run an agent: its steps, turns and samples."""
