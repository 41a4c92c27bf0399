"""Liveness: the heartbeats of nodes, which nodes are dead, and whether a service makes progress."""
