"""Changes: each shows its dry run first, asks for a reason, and is refused if what the dry run showed has changed."""
