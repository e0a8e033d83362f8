"""From the bytes of a record to a document, or to the reason why it is none."""
