"""Our topics, partitions, offsets and rights on the brokers: checks, creates and watches them."""
