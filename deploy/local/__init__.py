"""Kafka and a schema registry on this machine, for tests, measurements and demos.

`RealKafka` (real.py) runs Apache Kafka from Maven Central's jars with the machine's Java.
`RealRegistry` (registry.py) is a schema registry, also from Maven Central. `python -m deploy.local`
starts Kafka until Ctrl-C.
"""
