"""What commands read from the histories of processes."""
