"""Statistics: the S-curve, the shape of keys, and the doubt of a verdict."""
