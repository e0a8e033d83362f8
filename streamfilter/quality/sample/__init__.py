"""Before: what a sample of texts or records says, compared by brute force."""
