"""Files of rows: what is read is written back in the same form."""
