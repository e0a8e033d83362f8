"""The memory: an index of what was forwarded, as RocksDB tables or as dictionaries.

`protocol` is what the rest of the program knows. `opening` opens, creates or refuses a
directory; `rocks` and `memory` keep the protocol; `errors` is what can go wrong.
"""
