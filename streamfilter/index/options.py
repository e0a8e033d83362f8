"""RocksDB's settings: one place, each with its reason.

Measured with batches of 500 documents and 17 keys each; `streamfilter bench` repeats it.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

from rocksdict import (
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
LOG_BYTES = 4 * MIB
LOG_FILES = 4


@dataclass(frozen=True, slots=True)
class Memory:
    """What one index may take, in bytes, whatever its size on disk."""

    cache_bytes: int = 128 * MIB
    """Blocks, their indexes and Bloom filters, shared by all column families."""
    memtable_bytes: int = 64 * MIB
    """All write buffers together, half of it for band keys."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings of an open database, with the handles that its properties come from."""

    database: Options
    bands: Options
    documents: Options
    small: Options
    """For the families that stay small: batches and the index's own facts."""
    cache: Cache
    buffers: WriteBufferManager


def tuned(memory: Memory, *, create: bool) -> Tuning:
    """Return the settings for an index that may take *memory*."""
    cache = Cache(memory.cache_bytes)
    buffers = WriteBufferManager(memory.memtable_bytes, False)
    # A small band memtable beats a large one: a probe that its Bloom filter lets through costs a
    # walk in the skip list, and the walk's cache misses grow with the list.
    buffer_bytes = max(MIB, min(16 * MIB, memory.memtable_bytes // 4))
    return Tuning(
        database=_database(buffers, memory, create=create),
        bands=_family(cache, buffer_bytes, block_bytes=4_096, compressed=True),
        documents=_family(cache, buffer_bytes, block_bytes=16_384, compressed=False),
        small=_family(cache, MIB, block_bytes=16_384, compressed=True),
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
    options.set_max_open_files(_open_files())
    options.set_max_background_jobs(2)
    options.set_max_log_file_size(LOG_BYTES)
    options.set_keep_log_file_num(LOG_FILES)
    options.set_stats_dump_period_sec(0)
    return options


def _open_files() -> int:
    """Leave half of the process's file descriptors to Kafka, HTTP and the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return OPEN_FILES_MAX
    return max(32, min(OPEN_FILES_MAX, soft // 2))


def _family(cache: Cache, buffer_bytes: int, *, block_bytes: int, compressed: bool) -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_block_size(block_bytes)
    table.set_bloom_filter(BLOOM_BITS, False)
    table.set_format_version(5)
    # Filters and indexes count against the cache: memory stays bounded as the index grows.
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(buffer_bytes)
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(0.2)
    options.set_target_file_size_base(FILE_BYTES)
    options.set_level_compaction_dynamic_level_bytes(True)
    # Keys are hashes and samples are random: only the zeroed sequence numbers of the lower
    # levels compress (documents keep their own bytes: nothing in them does).
    compression = DBCompressionType.lz4() if compressed else DBCompressionType.none()
    options.set_compression_type(compression)
    return options
