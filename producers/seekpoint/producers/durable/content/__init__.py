"""Content: what code writes into its process, and invocations."""
