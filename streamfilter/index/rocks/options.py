"""RocksDB's settings, with a reason for each.

The figures come from `python -m tests.bench --only index`: batches of 500 documents, 17 keys each.
"""

import resource

from msgspec import Struct
from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    WriteBufferManager,
)

MIB = 1 << 20
BLOOM_BITS = 10  # 1 % of the absent keys read a data block
OPEN_FILES_MAX = 512  # 64 MiB each: 32 GiB of index before a file must be opened again
FILE_BYTES = 64 * MIB
BLOCK_BYTES = 4_096
DOCUMENTS_LEVEL_BYTES = 64 * MIB  # about the size of the newest files that are merged at once
LOG_BYTES = MIB  # RocksDB's text log: a window that begins and is dropped adds 10 kB to it
LOG_FILES = 4
RUN_KEYS_MAX = 1 << 19  # more would make few runs fewer, and a start slower
RECENT_BYTES = 2 * (40 + 4)  # a key of a run in RAM, and of its filter; while one is written, two


class Memory(Struct, frozen=True):
    """RAM that one index may use, in bytes, whatever its size on disk."""

    cache_bytes: int = 128 * MIB  # blocks, indexes and Bloom filters of all column families
    memtable_bytes: int = 64 * MIB  # all write buffers together
    front_bytes: int = 768 * MIB  # the filters of all runs, as they grow; 0: none
    share: int = 1  # how many indexes of this process share the limit of open files
    run_keys: int = RUN_KEYS_MAX  # recent keys of a window in RAM that fill a run
    fan: int = 8  # runs of a size that become one. A look-up searches up to seven of each size


class Tuning(Struct, frozen=True):
    """The settings of an open database, with the handles that its figures are read from."""

    database: Options
    bands: Options
    documents: Options
    ids: Options
    small: Options  # for the families that stay small: batches and the index's own facts
    cache: Cache
    buffers: WriteBufferManager


def tuned(memory: Memory, *, create: bool) -> Tuning:
    """Return the settings for an index that may use *memory*."""
    cache = Cache(memory.cache_bytes)
    buffers = WriteBufferManager(memory.memtable_bytes, False)
    buffer_bytes = max(MIB, min(16 * MIB, memory.memtable_bytes // 4))
    return Tuning(
        database=_database(buffers, memory, create=create),
        bands=_family(_table(cache), buffer_bytes),
        documents=_documents(cache, buffer_bytes),
        ids=_family(_table(cache), buffer_bytes),
        small=_family(_table(cache), MIB),
        cache=cache,
        buffers=buffers,
    )


def _database(buffers: WriteBufferManager, memory: Memory, *, create: bool) -> Options:
    options = Options(raw_mode=True)  # the other mode unpickles the stored bytes
    options.create_if_missing(create)
    options.create_missing_column_families(create)
    options.set_write_buffer_manager(buffers)
    # These settings also apply to RocksDB's own family `default`, which stays empty. Its buffer
    # size matters nevertheless. After a full disk, writes resume when as much space is free as the
    # largest buffer of any family. With the default of 64 MiB a small volume might stay stopped.
    options.set_write_buffer_size(MIB)
    # The log is replayed at start. Without a limit it grows until the smallest family's buffer
    # is full.
    options.set_max_total_wal_size(memory.memtable_bytes)
    options.set_max_open_files(_open_files(memory.share))
    options.set_max_background_jobs(2)
    # Without it, the write that drops a family of a window waits until its files are deleted.
    options.set_avoid_unnecessary_blocking_io(True)
    options.set_max_log_file_size(LOG_BYTES)
    options.set_keep_log_file_num(LOG_FILES)
    options.set_stats_dump_period_sec(0)
    return options


def _open_files(share: int) -> int:
    """Return the limit of open files: half of the process's descriptors are for Kafka and HTTP."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return OPEN_FILES_MAX
    return max(32, min(OPEN_FILES_MAX, soft // 2 // share))


def _documents(cache: Cache, buffer_bytes: int) -> Options:
    """Return the settings of the records: large, written in the order of their ordinals."""
    table = _table(cache)
    # The stamp of each write makes every new file's key range begin before all ordinals. So a read
    # of an old record must check all new files. The filters skip them at once (without filters:
    # a fifth of a read's time at 5 million documents).
    table.set_bloom_filter(BLOOM_BITS, False)
    options = _family(table, buffer_bytes)
    options.set_optimize_filters_for_hits(True)  # only records that exist are read
    # Because of the stamp, each compaction also writes all of the first level again. Below it,
    # files of other ordinals are moved unchanged. So a smaller first level means less writing.
    options.set_max_bytes_for_level_base(DOCUMENTS_LEVEL_BYTES)
    return options


def _table(cache: Cache) -> BlockBasedOptions:
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    # A read of a document or a bucket needs one block, and rarely its neighbour.
    table.set_block_size(BLOCK_BYTES)
    table.set_format_version(5)
    # Filters and indexes count against the cache, so memory stays bounded as the index grows. A
    # whole filter has 4 MB, more than one of the cache's 64 shards can hold. It would be read from
    # the disk with every probe. Divided into parts of a block's size, filters are cached like
    # blocks.
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
