"""Live: an audit of the verdicts of a running process, and its figures."""
