"""Failures: record them, rebuild them, and decide which to try again."""
