"""The ``seekpoint`` command. Data goes to stdout, talk to stderr; ``docs/cli.md`` shows every command.

``cli.main(arguments)`` runs one and gives its exit code: 0 ok, 1 a fault was found, 2 usage, 3 not reachable,
4 refused, 130 interrupted.
"""
