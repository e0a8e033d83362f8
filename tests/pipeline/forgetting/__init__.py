"""Verdicts of an index that forgets: by age, by count, by tombstone."""
