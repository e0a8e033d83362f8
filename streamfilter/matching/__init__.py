"""Matching.

Candidates, verification, verdict, evidence; true with Kafka replaced by a text file.
"""
