"""The dispatcher: perform effects that owners only wrote down."""
