"""The settings: one class for each section, and the types of their values."""
