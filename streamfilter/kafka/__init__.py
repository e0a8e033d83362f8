"""The wire: everything that speaks to Kafka, and the engine that decides what to say."""
