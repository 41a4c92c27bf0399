"""The state of one process and the values it is made of."""
