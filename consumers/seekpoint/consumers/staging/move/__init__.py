"""Moving a journal from an embedded log to Kafka."""
