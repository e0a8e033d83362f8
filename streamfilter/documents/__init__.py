"""Turns the bytes of a record into a document, or into the reason why it is not one."""
