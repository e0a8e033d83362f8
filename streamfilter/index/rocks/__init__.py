"""The index on RocksDB: its database, its column families, and the Bloom filter before them."""
