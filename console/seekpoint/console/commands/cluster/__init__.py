"""Commands on the local cluster."""
