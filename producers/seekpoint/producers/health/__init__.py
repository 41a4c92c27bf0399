"""The health and the metrics of programs that run agents, and the port that serves them."""
