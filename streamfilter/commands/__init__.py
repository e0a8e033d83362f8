"""The verbs: one file each, with a click command called ``command``."""
