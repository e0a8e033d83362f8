"""The changelog: its bytes, its replay, and how it is cut off."""
