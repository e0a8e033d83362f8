"""Backups in a bucket of S3, or of a store that speaks it: the only user of fsspec and s3fs.

Credentials, region and endpoint come from where all tools of S3 look: the environment
(``AWS_ACCESS_KEY_ID``, ``AWS_PROFILE``, ``AWS_ENDPOINT_URL``, …), ``~/.aws``, or the host's role.
Nothing of them is in our configuration. A killed upload leaves no object, at most parts of one,
which a rule of the bucket should expire (AbortIncompleteMultipartUpload).
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from streamfilter.backup.stores import (
    BLOCK,
    MissingObject,
    Stored,
    StoreFull,
    StoreRefused,
    StoreUnreachable,
)
from streamfilter.index.errors import IndexFault
from streamfilter.stops import of_extra

PART = 8 * BLOCK  # bytes of one request; two of them are held in memory at most
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 10, 60, 3
_FULL = re.compile(r"quota|storage ?full|no space|insufficient storage|507", re.IGNORECASE)
_USER = re.compile(r"(://)\S*@")  # user and password in AWS_ENDPOINT_URL
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
_CURE = (
    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (or the host's role), "
    "and the rights ListBucket, GetObject, PutObject, DeleteObject and AbortMultipartUpload"
)


class S3Store:
    """Objects under ``s3://bucket/prefix``."""

    def __init__(self, target: str) -> None:
        """Connect to nothing yet; raise `MissingExtra` if s3fs is not installed."""
        with of_extra("s3", target):
            from s3fs import S3FileSystem
        self.where, self._root = target.rstrip("/"), target.removeprefix("s3://").rstrip("/")
        settings = {
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
            "retries": {"max_attempts": ATTEMPTS, "mode": "standard"},
        }
        # No instance of before: it may have credentials that have expired, or an old listing.
        self._files: Any = S3FileSystem(
            config_kwargs=settings, skip_instance_cache=True, use_listings_cache=False
        )
        self._files.retries = ATTEMPTS

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def listing(self, folder: str) -> dict[str, Stored]:
        with self._errors(folder):
            try:
                found = self._files.ls(self._path(folder), detail=True, refresh=True)
            except FileNotFoundError:
                self._files.ls(self._root.partition("/")[0], refresh=True)  # the bucket must exist
                return {}
        return {
            each["name"].rpartition("/")[2]: Stored(
                int(each["size"] or 0),
                each["LastModified"].timestamp() if "LastModified" in each else 0.0,
                each["type"] == "directory",
            )
            for each in found
            if each["name"] != self._path(folder)
        }

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        """Upload an object in parts; it appears with the last request."""
        with self._errors(name):
            file = self._files.open(self._path(name), "wb", block_size=PART)
            try:
                for block in blocks:
                    file.write(block)
            except BaseException:
                # Without these two, closing (also by the garbage collector) would complete it.
                file.closed = True
                with suppress(Exception):  # the first error counts
                    file.discard()
                raise
            try:
                file.close()
            finally:
                file.closed = True

    def get(self, name: str) -> Iterator[bytes]:
        with self._errors(name):
            try:
                with self._files.open(
                    self._path(name), "rb", block_size=PART, cache_type="readahead"
                ) as file:
                    while block := file.read(BLOCK):
                        yield block
            except FileNotFoundError:
                raise MissingObject(f"{self.where}/{name}: is missing") from None

    def delete(self, name: str) -> None:
        with self._errors(name), suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Turn what the libraries raise into faults without secrets."""
        from botocore.exceptions import NoCredentialsError, PartialCredentialsError

        what = f"{self.where}/{name}" if name else self.where
        try:
            yield
        except IndexFault:
            raise
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise StoreRefused(f"{what}: {error}\n    cure: {_CURE}") from None
        except FileNotFoundError as error:
            cure = "create the bucket, or correct its name"
            raise StoreRefused(f"{what}: {_clean(error)}\n    cure: {cure}") from None
        except PermissionError as error:
            raise StoreRefused(f"{what}: {_clean(error)}\n    cure: {_CURE}") from None
        except Exception as error:  # what speaks no S3 raises anything: KeyError, RecursionError
            text = _clean(error)
            if _FULL.search(text) or getattr(error, "errno", 0) == errno.ENOSPC:
                raise StoreFull(
                    f"{what}: the target is full ({text})\n    cure: make room there"
                ) from None
            raise StoreUnreachable(f"{what}: cannot be used now: {text}") from None


def _clean(error: Exception) -> str:
    """Return the error's text without credentials, in which a store may quote ours."""
    text = _USER.sub(r"\1********@", f"{type(error).__name__}: {error}"[:500])
    for secret in filter(None, map(os.environ.get, _SECRETS)):
        text = text.replace(secret, "********")
    return text
