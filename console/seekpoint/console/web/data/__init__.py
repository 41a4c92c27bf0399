"""What the pages show, read from the journal once for all who look."""
