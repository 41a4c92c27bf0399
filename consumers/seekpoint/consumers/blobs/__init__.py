"""Blob stores: where the bytes of attachments are that are too large for the journal's partitions."""
