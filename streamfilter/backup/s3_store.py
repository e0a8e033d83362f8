"""Backups in a bucket of S3, or of a store that speaks it."""

from collections.abc import Iterable, Iterator

from streamfilter.backup.s3_objects import S3Client, S3Object, S3Upload, parts_of
from streamfilter.backup.stores import BLOCK, Stored
from streamfilter.model import S3


class S3Store:
    """Objects under ``s3://bucket/prefix``."""

    def __init__(self, target: str) -> None:
        """Connect to nothing yet; raise `MissingExtra` if s3fs is not installed."""
        self.where = target.rstrip("/")
        self._client = S3Client(target)

    def _path(self, name: str) -> str:
        return f"{self.where}/{name}" if name else self.where

    def listing(self, folder: str) -> dict[str, Stored]:
        files, path = self._client.files, self._path(folder).removeprefix(S3)
        with self._client.errors(self._path(folder)):
            try:
                found = files.ls(path, detail=True, refresh=True)
            except FileNotFoundError:
                files.ls(parts_of(path)[0], refresh=True)  # the bucket must exist
                return {}
        return {
            each["name"].rpartition("/")[2]: Stored(
                int(each["size"] or 0),
                each["LastModified"].timestamp() if "LastModified" in each else 0.0,
                each["type"] == "directory",
            )
            for each in found
            if each["name"] != path
        }

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        """Upload an object in parts; it appears with the last request."""
        upload = S3Upload(self._client, self._path(name))
        try:
            for block in blocks:
                upload.write(block)
            upload.complete()
            upload.publish()
        finally:
            upload.close()

    def get(self, name: str) -> Iterator[bytes]:
        file = S3Object(self._client, self._path(name))
        while block := file.read(BLOCK):
            yield block

    def delete(self, name: str) -> None:
        path = self._path(name)
        bucket, key = parts_of(path)
        with self._client.errors(path):
            self._client.call("delete_object", Bucket=bucket, Key=key)
