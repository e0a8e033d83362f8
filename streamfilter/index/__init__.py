"""The memory: an index of the forwarded documents, as RocksDB tables or as dictionaries.

The rest of the program uses `protocol`. `opening` opens, creates or refuses a directory. `rocks`
and `memory` implement the protocol. `errors` has the exceptions.
"""
