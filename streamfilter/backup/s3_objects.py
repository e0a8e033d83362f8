"""Objects of S3, read in ranges and written in parts: the only user of fsspec and s3fs.

Credentials, region and endpoint come from where all tools of S3 look: the environment
(``AWS_ACCESS_KEY_ID``, ``AWS_PROFILE``, ``AWS_ENDPOINT_URL``, …), ``~/.aws``, or the host's role.
Nothing of them is in our configuration. A killed upload leaves no object, at most parts of one,
which a rule of the bucket should expire (AbortIncompleteMultipartUpload).

s3fs has files of its own. They are not used, because their calls cannot be interrupted, and a
closed file completes its upload even after an error.
"""

import asyncio
import errno
import logging
import os
import re
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from http import HTTPStatus
from io import SEEK_CUR, SEEK_END, RawIOBase
from typing import Any

from streamfilter.backup.stores import (
    BLOCK,
    MissingObject,
    StoreFull,
    StoreRefused,
    StoreUnreachable,
)
from streamfilter.index.errors import IndexFault
from streamfilter.model import S3
from streamfilter.stops import Stop, of_extra

FIRST = 128 << 10  # bytes of an object's first request: many inputs may be open at once
AHEAD = 8 * BLOCK  # bytes of each further request, if an object is read in its order
BLOCKS = 32  # blocks in memory, of all objects that are read in any order
PART = 16 * BLOCK  # bytes of a part of an upload; two parts are in memory at most
PARTS_MAX = 10_000  # a limit of S3
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 10, 60, 3
CALL_SECONDS = 600  # longest call, with all its attempts
ABORT_SECONDS = 10  # longest wait for a store that is to forget an upload
POLL_SECONDS = 0.2  # longest delay of an interruption
_FULL = re.compile(r"quota|full|nospace|insufficient", re.IGNORECASE)  # of a store's code
_USER = re.compile(r"(://)\S*@")  # user and password in AWS_ENDPOINT_URL
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
_CURE = (
    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (or the host's role), "
    "and the rights ListBucket, GetObject, PutObject, DeleteObject and AbortMultipartUpload"
)


@cache
def _models(path: str | None) -> Any:
    """Return S3's API for all clients of this process: to read it takes .2 s of the interpreter.

    Each backup has a client of its own, and its records would wait for that.
    """
    from botocore.loaders import create_loader

    return create_loader(path)


class ChangedObject(StoreUnreachable):
    """The object was written again while it was read."""


class S3Client:
    """The store that the environment names. The first call connects to it."""

    def __init__(
        self,
        what: str,
        *,
        alive: Callable[[], None] = lambda: None,
        raised: Callable[[IndexFault], Exception] = lambda fault: fault,
    ) -> None:
        """Raise `MissingExtra` if s3fs is not installed, which *what* needs.

        *alive* is called while a call waits. What it raises cancels the call. *raised* returns the
        exception that `errors` raises for a fault.
        """
        with of_extra("s3", what):
            from aiobotocore.session import AioSession
            from s3fs import S3FileSystem
        session = AioSession()
        models = _models(session.get_config_variable("data_path"))
        session.register_component("data_loader", models)
        settings = {
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
            "retries": {"max_attempts": ATTEMPTS, "mode": "standard"},
        }
        for noisy in ("aiobotocore", "botocore"):  # each start, where credentials were found
            logging.getLogger(noisy).setLevel(logging.WARNING)
        # No instance of before: it may have credentials that have expired, or an old listing.
        self.files: Any = S3FileSystem(
            session=session,
            config_kwargs=settings,
            skip_instance_cache=True,
            use_listings_cache=False,
        )
        self.files.retries = ATTEMPTS
        self._alive, self._raised = alive, raised
        self.block = lru_cache(BLOCKS)(self._block)

    def call(self, method: str, *, whole: bool = False, **given: Any) -> Any:
        """Return the answer of a *method* of the API that has no stream in it.

        A *whole* call is not interrupted: it decides whether an object is there.
        """
        alive = (lambda: None) if whole else self._alive
        return self._wait(self.files._call_s3(method, **given), alive)

    def _wait(self, coroutine: Coroutine[Any, Any, Any], alive: Callable[[], None]) -> Any:
        limited = asyncio.wait_for(coroutine, CALL_SECONDS)
        future = asyncio.run_coroutine_threadsafe(limited, self.files.loop)
        try:
            while not wait([future], POLL_SECONDS).done:
                alive()
            return future.result()
        finally:
            future.cancel()

    def abort(self, **upload: Any) -> None:
        """Make the store forget an *upload*, also after an interruption; ignore all errors."""
        coroutine = self.files._call_s3("abort_multipart_upload", **upload)
        future = asyncio.run_coroutine_threadsafe(coroutine, self.files.loop)
        with suppress(Exception):  # the error that led here counts
            future.result(ABORT_SECONDS)
        future.cancel()

    def read(self, bucket: str, key: str, start: int, end: int) -> tuple[bytes, str, int]:
        """Return these bytes of an object, at most to its end, its ETag, and its size."""
        found: tuple[bytes, str, int]
        found = self._wait(self._ranged(bucket, key, start, end), self._alive)
        return found

    async def _ranged(self, bucket: str, key: str, start: int, end: int) -> tuple[bytes, str, int]:
        from s3fs.core import S3_RETRYABLE_ERRORS

        span = f"bytes={start}-{end - 1}"
        attempt = 0
        while True:
            try:
                answer = await self.files._call_s3("get_object", Bucket=bucket, Key=key, Range=span)
            except OSError as error:
                if code_of(error) == "InvalidRange":  # it is empty, or shorter than it was
                    return b"", "", 0
                raise
            length = answer["ContentLength"]
            size = int(answer.get("ContentRange", f"/{length}").rpartition("/")[2])
            if length != min(end, size) - start:  # such as all of it for a request of a part
                raise ValueError(f"{length} bytes were sent for {span}")
            try:
                async with answer["Body"] as body:
                    return await body.read(), answer.get("ETag", ""), size
            except S3_RETRYABLE_ERRORS:  # the request itself has been tried again already
                attempt += 1
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(attempt)

    def _block(self, bucket: str, key: str, number: int, etag: str) -> bytes:
        """Return a block of an object that has this *etag*; raise `ChangedObject`."""
        found, now, _ = self.read(bucket, key, number * BLOCK, (number + 1) * BLOCK)
        check_unchanged(f"{S3}{bucket}/{key}", etag, now)
        return found

    def names(self, path: str) -> Iterator[str]:
        """Yield the objects below *path*, or those of a pattern (``*``, ``**``, ``?``, ``[…]``).

        Hidden ones are left out: a part of the name below *path* begins with a dot.
        """
        from fsspec.utils import glob_translate

        bucket, pattern = parts_of(path)
        literal = re.split(r"[*?[]", pattern)[0]
        matches = re.compile(glob_translate(pattern) if literal != pattern else ".*", re.DOTALL)
        folder = literal.rpartition("/")[0]
        given: dict[str, Any] = {"Bucket": bucket, "Prefix": literal}
        while True:
            with self.errors(path):
                page = self.call("list_objects_v2", **given)
                keys = [each["Key"] for each in page.get("Contents", ())]
                if more := page.get("IsTruncated"):
                    given["ContinuationToken"] = page["NextContinuationToken"]
            for key in keys:
                hidden = "/." in f"/{key.removeprefix(folder).lstrip('/')}"
                if matches.match(key) and not key.endswith("/") and not hidden:
                    yield f"{S3}{bucket}/{key}"
            if not more:
                return

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn what the libraries raise into faults of *what* without secrets."""
        try:
            with _faults(what):
                yield
        except IndexFault as fault:
            raise self._raised(fault) from None


@contextmanager
def _faults(what: str) -> Iterator[None]:
    from botocore.exceptions import (
        NoCredentialsError,
        ParamValidationError,
        PartialCredentialsError,
    )

    try:
        yield
    except (IndexFault, Stop):
        raise
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise StoreRefused(f"{what}: {error}\n    cure: {_CURE}") from None
    except (FileNotFoundError, ParamValidationError) as error:
        if code_of(error) in ("NoSuchKey", "404"):
            raise MissingObject(f"{what}: is missing") from None
        cure = "create the bucket, or correct its name"
        raise StoreRefused(f"{what}: {_clean(error)}\n    cure: {cure}") from None
    except PermissionError as error:
        raise StoreRefused(f"{what}: {_clean(error)}\n    cure: {_CURE}") from None
    except Exception as error:  # what speaks no S3 raises anything: KeyError, RecursionError
        text = _clean(error)
        if _says_full(error):
            raise StoreFull(
                f"{what}: the target is full ({text})\n    cure: make room there"
            ) from None
        raise StoreUnreachable(f"{what}: cannot be used now: {text}") from None


def code_of(error: Exception) -> str:
    """Return S3's code for *error*, or "" if it has none."""
    return str(_response(error).get("Error", {}).get("Code", ""))


def _response(error: Exception) -> dict[str, Any]:
    """Return the store's answer. Only it is asked: a text also quotes addresses and names."""
    return getattr(error.__cause__, "response", None) or {}


def _says_full(error: Exception) -> bool:
    status = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    full = status == HTTPStatus.INSUFFICIENT_STORAGE or _FULL.search(code_of(error))
    return bool(full) or getattr(error, "errno", 0) == errno.ENOSPC


def check_unchanged(what: str, etag: str, now: str) -> None:
    if now != etag:
        raise ChangedObject(
            f"{what}: was written again while it was read\n"
            "    cure: run it again when no program writes to it"
        )


def _clean(error: Exception) -> str:
    """Return the error's text without credentials, in which a store may quote ours."""
    text = _USER.sub(r"\1********@", f"{type(error).__name__}: {error}"[:500])
    for secret in filter(None, map(os.environ.get, _SECRETS)):
        text = text.replace(secret, "********")
    return text


def parts_of(path: str) -> tuple[str, str]:
    """Return the bucket and the key of ``s3://BUCKET/KEY``."""
    bucket, _, key = path.removeprefix(S3).partition("/")
    return bucket, key


class S3Object(RawIOBase):
    """One object, read in its order, or in blocks in any order (*seeking*)."""

    def __init__(self, client: S3Client, path: str, *, seeking: bool = False) -> None:
        """Read the first bytes of *path*; all methods that read raise `IndexFault`."""
        self._client, self._path, self._seeking = client, path, seeking
        self._at = self._start = 0
        with client.errors(path):
            self._held, self._etag, self.size = client.read(*parts_of(path), 0, FIRST)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = {SEEK_CUR: self._at, SEEK_END: self.size}.get(whence, 0)
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self.size:
            self._held = b""  # an input stays open after its end
            return 0
        begin = self._at - self._start
        if not 0 <= begin < len(self._held):
            with self._client.errors(self._path):
                self._fill()
            begin = self._at - self._start
        count = min(len(buffer), len(self._held) - begin)
        buffer[:count] = memoryview(self._held)[begin : begin + count]
        self._at += count
        if self._seeking:
            self._held = b""  # the client keeps the block
        return count

    def _fill(self) -> None:
        """Hold the bytes from the position on."""
        place = parts_of(self._path)
        if self._seeking:
            number = self._at // BLOCK
            self._held, self._start = self._client.block(*place, number, self._etag), number * BLOCK
            return
        self._held = b""
        self._held, etag, _ = self._client.read(*place, self._at, self._at + AHEAD)
        self._start = self._at
        check_unchanged(self._path, self._etag, etag)


class S3Upload:
    """An object that is written in parts. It appears whole with `publish`, or not at all."""

    def __init__(self, client: S3Client, path: str) -> None:
        """Send nothing yet: without `begin`, the first request comes with the first full part."""
        self._client, self._path = client, path
        self.closed = False
        self._held = bytearray()
        self._parts: list[dict[str, Any]] = []
        bucket, key = parts_of(path)
        self._upload: dict[str, Any] = {"Bucket": bucket, "Key": key}

    def write(self, data: bytes) -> int:
        self._held += data
        while len(self._held) >= PART:
            part = bytes(self._held[:PART])
            del self._held[:PART]
            self._send(part)
        return len(data)

    def begin(self) -> "S3Upload":
        """Begin the upload, so that a missing bucket or right is known before any work."""
        with self._client.errors(self._path):
            begun = self._client.call("create_multipart_upload", **self._upload)
            self._upload["UploadId"] = begun["UploadId"]
        return self

    def _send(self, part: bytes) -> None:
        if "UploadId" not in self._upload:
            self.begin()
        with self._client.errors(self._path):
            number = len(self._parts) + 1
            if number > PARTS_MAX:
                raise StoreRefused(
                    f"{self._path}: is larger than {PART * PARTS_MAX >> 30} GiB, the most that is "
                    "written\n    cure: give it a name that ends in .zst, or write a file of this "
                    "host"
                )
            sent = self._client.call("upload_part", Body=part, PartNumber=number, **self._upload)
            self._parts.append({"PartNumber": number, "ETag": sent["ETag"]})

    def complete(self) -> None:
        """Send what is left: after this, only `publish` can fail."""
        if self._held and "UploadId" in self._upload:
            self._send(bytes(self._held))
            self._held.clear()

    def publish(self) -> None:
        """Make the object appear, or replace the one of this name."""
        upload = self._upload
        with self._client.errors(self._path):
            if self._parts:
                parts = {"Parts": self._parts}
                self._client.call(
                    "complete_multipart_upload", whole=True, MultipartUpload=parts, **upload
                )
                del upload["UploadId"]
            else:
                place: dict[str, Any] = {each: upload[each] for each in ("Bucket", "Key")}
                self._client.call("put_object", whole=True, Body=bytes(self._held), **place)

    def flush(self) -> None:
        """Do nothing: all parts but the last have one size."""

    def close(self) -> None:
        """Forget the parts that were sent, unless they were published."""
        self.closed = True
        self._held.clear()
        if "UploadId" in self._upload:
            self._client.abort(**self._upload)
            del self._upload["UploadId"]
