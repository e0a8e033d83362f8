"""RocksDB's settings: one place, each with its reason.

Measured with batches of 500 documents and 17 keys each by `python -m tests.bench --only index`.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    WriteBufferManager,
)

MIB = 1 << 20
BLOOM_BITS = 10  # a miss reads a data block in 1 % of the cases
OPEN_FILES_MAX = 512  # 64 MiB each: 32 GiB of index before a file must be opened again
FILE_BYTES = 64 * MIB
BLOCK_BYTES = 4_096
NEWEST_FILES = 8  # before they are merged into the levels
BUFFERS_MERGED = 2  # into each of them
DOCUMENTS_LEVEL_BYTES = 64 * MIB  # about what their newest files hold that are merged at once
LOG_BYTES = MIB  # RocksDB's own words: a window that begins and goes is worth 10 kB of them
LOG_FILES = 4


@dataclass(frozen=True, slots=True)
class Memory:
    """What one index may take, in bytes, whatever its size on disk."""

    cache_bytes: int = 128 * MIB
    """Blocks, their indexes and Bloom filters, shared by all column families."""
    memtable_bytes: int = 64 * MIB
    """All write buffers together, half of it for band keys."""
    front_bytes: int = 192 * MIB
    """The front that knows what was never written, allocated as it fills; 0 for none."""
    share: int = 1
    """Among how many indexes of this process its open files are shared."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings of an open database, with the handles that its properties come from."""

    database: Options
    bands: Options
    documents: Options
    ids: Options
    small: Options
    """For the families that stay small: batches and the index's own facts."""
    cache: Cache
    buffers: WriteBufferManager


def tuned(memory: Memory, *, create: bool) -> Tuning:
    """Return the settings for an index that may take *memory*."""
    cache = Cache(memory.cache_bytes)
    buffers = WriteBufferManager(memory.memtable_bytes, False)
    # Three quarters of a write are walks in the bands' skip list, and their cache misses grow with
    # the list: with twice the buffer a write costs a third more. Hashed lists cost a third less
    # and are sorted when they are flushed: twice the processor time in all, pauses of a second.
    buffer_bytes = max(MIB, min(16 * MIB, memory.memtable_bytes // 4))
    return Tuning(
        database=_database(buffers, memory, create=create),
        bands=_bands(cache, buffer_bytes, fronted=memory.front_bytes > 0),
        documents=_documents(cache, buffer_bytes),
        ids=_family(_table(cache), buffer_bytes),
        small=_family(_table(cache), MIB),
        cache=cache,
        buffers=buffers,
    )


def _database(buffers: WriteBufferManager, memory: Memory, *, create: bool) -> Options:
    options = Options(raw_mode=True)  # the other mode unpickles what it reads
    options.create_if_missing(create)
    options.create_missing_column_families(create)
    options.set_write_buffer_manager(buffers)
    # These settings are also those of RocksDB's own family `default`, which stays empty. Its
    # buffer counts all the same: writes resume after a full disk once the largest buffer of any
    # family is free again, and the default of 64 MiB would keep a small volume stopped for ever.
    options.set_write_buffer_size(MIB)
    # The log is replayed at start. It would grow until the smallest family fills its buffer.
    options.set_max_total_wal_size(memory.memtable_bytes)
    options.set_max_open_files(_open_files(memory.share))
    options.set_max_background_jobs(2)
    # Else whoever drops a family of a window deletes its files, too: that write waits for it.
    options.set_avoid_unnecessary_blocking_io(True)
    options.set_max_log_file_size(LOG_BYTES)
    options.set_keep_log_file_num(LOG_FILES)
    options.set_stats_dump_period_sec(0)
    return options


def _open_files(share: int) -> int:
    """Leave half of the process's file descriptors to Kafka, HTTP and the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return OPEN_FILES_MAX
    return max(32, min(OPEN_FILES_MAX, soft // 2 // share))


def _bands(cache: Cache, buffer_bytes: int, *, fronted: bool) -> Options:
    """Return the settings of the buckets: small, in random order, and often asked for in vain."""
    table = _table(cache)
    table.set_bloom_filter(BLOOM_BITS, False)
    options = _family(table, buffer_bytes)
    # Each round merges the newest files with all of the next level. Fewer and larger rounds write
    # half as much, and what writes less keeps up: at 5 million documents the levels fell behind.
    options.set_level_zero_file_num_compaction_trigger(NEWEST_FILES)
    options.set_min_write_buffer_number_to_merge(BUFFERS_MERGED)
    options.set_max_write_buffer_number(BUFFERS_MERGED + 2)
    # Zeroed sequence numbers are all that compresses, and only the last level has them.
    options.set_compression_type(DBCompressionType.none())
    options.set_bottommost_compression_type(DBCompressionType.lz4())
    if fronted:
        # The last level's filters would be nine tenths of all and fill the cache. A key that
        # passes the front reads a block there instead of a filter's part.
        options.set_optimize_filters_for_hits(True)
    else:
        # Spares new keys the walk in the skip list. Behind a front few would ask, and filling it
        # costs a tenth of a write.
        options.set_memtable_whole_key_filtering(True)
        options.set_memtable_prefix_bloom_ratio(0.2)
    return options


def _documents(cache: Cache, buffer_bytes: int) -> Options:
    """Return the settings of the records: large, written in the order of their ordinals."""
    table = _table(cache)
    # The stamp of each write makes every new file begin before all ordinals. So an old record is
    # asked of all of them: the filters say no at once (a fifth of a read at 5 million documents).
    table.set_bloom_filter(BLOOM_BITS, False)
    options = _family(table, buffer_bytes)
    options.set_optimize_filters_for_hits(True)  # who asks for a record knows that it is there
    # And each round of merging writes all of the first level again. Below it files of other
    # ordinals are moved as they are: the smaller it is, the less is written.
    options.set_max_bytes_for_level_base(DOCUMENTS_LEVEL_BYTES)
    return options


def _table(cache: Cache) -> BlockBasedOptions:
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    # A read of a document or a bucket wants one block, and rarely a neighbour's.
    table.set_block_size(BLOCK_BYTES)
    table.set_format_version(5)
    # Filters and indexes count against the cache: memory stays bounded as the index grows. Whole,
    # a filter has 4 MB, more than one of the cache's 64 parts has room for: it would be read from
    # the disk again with every probe (seen at 500,000 documents: 700 us a document). In parts of
    # a block's size they come and go as blocks do.
    table.set_cache_index_and_filter_blocks(True)
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(BLOCK_BYTES)
    table.set_pin_top_level_index_and_filter(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    return table


def _family(table: BlockBasedOptions, buffer_bytes: int) -> Options:
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(buffer_bytes)
    options.set_target_file_size_base(FILE_BYTES)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_compression_type(DBCompressionType.none())  # hashes and samples are random
    return options
