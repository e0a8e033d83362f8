"""Edges and judge without a broker: messages, records that wait, retractions."""
