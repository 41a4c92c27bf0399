"""Resume a replay after a crash: the progress file and what already arrived."""
