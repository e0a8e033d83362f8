"""Faults on a real Kafka: a proxy, a supervisor, a nemesis, and an oracle that judges the rest."""
