"""The log on Kafka, read side: clients, consumers, transactions and error translation."""
