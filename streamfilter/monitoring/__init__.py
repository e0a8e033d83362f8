"""Monitoring: metrics, live quality figures, health endpoints, and the status page."""
