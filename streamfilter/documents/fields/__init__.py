"""The fields of a decoded value: found by pointers, and taken out."""
