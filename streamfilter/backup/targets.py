"""The store of a target, as the configuration or the command line writes it."""

import secrets
from pathlib import Path
from urllib.parse import unquote

from streamfilter.backup.stores import DirectoryStore, Store, StoreUnreachable
from streamfilter.index.errors import IndexRefused
from streamfilter.model import S3


def store_at(target: str | Path) -> Store:
    """Return the store at ``s3://bucket/prefix``, ``file:///directory`` or a directory's path.

    Raises `MissingExtra`: the library for S3 is not installed.
    """
    text = str(target)
    if text.startswith(S3):
        if "@" in text:
            raise IndexRefused(
                "the target has credentials in it; set AWS_ACCESS_KEY_ID and its like"
            )
        from streamfilter.backup.s3_store import S3Store  # a second of imports, and an extra

        return S3Store(text)
    if text.startswith("file:///"):
        return DirectoryStore(Path(unquote(text.removeprefix("file://"))))
    if "://" in text:
        scheme = text.partition("://")[0]
        cure = "use s3://BUCKET/PREFIX, file:///DIRECTORY, or a path"
        raise IndexRefused(f"{scheme}:// is no target of backups; {cure}")
    return DirectoryStore(Path(text))


def probe(store: Store) -> None:
    """Write, read, list and delete a small object, or raise `IndexFault`."""
    name, content = f"probe-{secrets.token_hex(8)}", b"streamfilter check"
    store.put(name, [content])
    try:
        if b"".join(store.get(name)) != content or name not in store.listing(""):
            raise StoreUnreachable(f"{store.where}: does not return what was just written to it")
    finally:
        store.delete(name)
