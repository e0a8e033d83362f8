"""The engine's ports on librdkafka, for one task."""
