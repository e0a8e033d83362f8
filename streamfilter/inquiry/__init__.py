"""Inquiry: what the filter makes of one document, or of a pair, and why; nothing is changed."""
