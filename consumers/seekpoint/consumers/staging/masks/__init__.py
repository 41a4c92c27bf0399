"""Masks: replace personal data in records on their way."""
