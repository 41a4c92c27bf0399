"""The writer: an owner's handle, the outbox, confirmation and healing."""
