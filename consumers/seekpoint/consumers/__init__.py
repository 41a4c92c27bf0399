"""Seekpoint: placeholder, filled by the next commits."""
