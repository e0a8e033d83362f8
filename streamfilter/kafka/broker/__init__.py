"""Brokers of our own: a real Apache Kafka for tests and measurements, an embedded one to show.

`RealKafka` (real.py) starts Apache Kafka from Maven Central's jars on the machine's Java; what
proves a promise runs against it. `EmbeddedBroker` (embedded.py) is the mock cluster inside
librdkafka: nothing to install, good enough to watch a stream flow, and proof of nothing.
"""
