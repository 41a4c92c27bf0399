"""How data is shown: tables, lines, JSON, progress and errors."""
