"""Connect frameworks for agents to a journal. Each module needs the extra with its name.

An adapter is written against the public names of `seekpoint`, as a user's own would be.
No other part of Seekpoint imports an adapter or its framework.
"""
