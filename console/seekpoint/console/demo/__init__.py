"""The demo: run workers on a real Kafka, kill one, let the others take over its runs, and check the result.

``conductor.run(DemoOptions(), DemoStory())`` is what ``seekpoint demo`` does. This package imports nothing by itself,
since every worker imports it.
"""
