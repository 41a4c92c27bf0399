"""Entries as bytes: Avro encoding and decoding, writer schemas, compatibility with older releases."""
