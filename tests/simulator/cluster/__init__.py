"""The simulated Kafka: topics, transactions and groups."""
