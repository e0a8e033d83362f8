"""The configuration: typed sections, their checks, and where their values come from."""
