"""Budgets: admit calls by an estimate and charge what they used."""
