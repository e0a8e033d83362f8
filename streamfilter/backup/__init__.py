"""Copies of an index outside its host: where they are kept, how one is taken, chosen, restored.

    target/                       s3://bucket/prefix, or file:///directory
      INDEX_ID/                   all backups of one index
        MADE-BATCH-TOKEN.json     a manifest: one backup, with the sum of every file; written last
        files/SUM                 a file of the database under its BLAKE2b sum; backups share files

A manual copy (`streamfilter backup`) and the copies that a running task takes (`index.backup`) are
the same. RocksDB never changes a table file, so a new backup uploads only the new ones.
"""
