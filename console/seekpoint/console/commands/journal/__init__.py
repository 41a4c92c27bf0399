"""Commands on a journal as a whole."""
