"""The memory: an index of the forwarded documents, as RocksDB tables or as dictionaries.

The rest of the program uses `protocol`. `directory/` opens, creates, refuses and copies the
directory of an index. `rocks/` and `memory` implement the protocol, both with the buckets of
`bands/`. `format` and `journal` have the stored bytes, and `errors` the exceptions.
"""
