"""The alert rules: their words, their routes, and the outages that they must report."""
