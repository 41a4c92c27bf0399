"""The fold and its rules: how each entry changes the state of its process."""
