"""The wire: librdkafka and nothing else. It implements the engine's ports, and decides nothing."""
