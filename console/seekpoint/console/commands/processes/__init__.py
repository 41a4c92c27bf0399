"""Commands on processes."""
