"""The values of users: exact JSON text, decimals, times and process ids."""
