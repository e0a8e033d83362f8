"""Matching.

Candidates, verification, verdict and evidence. Nothing here depends on Kafka.
"""
