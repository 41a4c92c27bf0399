"""Captures: records in an Avro container file."""
