"""Keep pytest from importing the examples: only type checkers read them."""

collect_ignore_glob = ["examples/*"]
