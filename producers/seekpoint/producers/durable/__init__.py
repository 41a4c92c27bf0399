"""The durable process: what an agent asks of its process is remembered, so that its code may run again."""
