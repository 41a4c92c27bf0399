"""Recovery: find the state of a process, now or at a point in its past."""
