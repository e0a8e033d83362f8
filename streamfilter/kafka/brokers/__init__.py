"""What brokers hold for us: topics, partitions, offsets; checked, created and watched."""
