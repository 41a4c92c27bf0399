"""Resume a replay after a crash: the progress file and the records that were delivered."""
