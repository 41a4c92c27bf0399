"""The view: processes in Redis or in memory, its rows, scripts and browser."""
