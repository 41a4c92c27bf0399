"""Values of users: exact JSON text, decimals, times and ids."""
