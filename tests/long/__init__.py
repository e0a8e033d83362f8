"""The long run: programs that try faults on a real Kafka for as long as they are asked to."""
