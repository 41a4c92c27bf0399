"""The operations on a process's history: go back, branch, compare. None of them changes what the log has."""
