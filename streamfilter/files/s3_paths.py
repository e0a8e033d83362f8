"""Paths that begin with ``s3://``: objects of S3 as inputs and outputs of the verbs over files."""

from collections.abc import Callable
from functools import cache
from glob import has_magic
from typing import TYPE_CHECKING

from streamfilter.index.errors import IndexFault, as_stop
from streamfilter.model import S3
from streamfilter.process.signals import INTERRUPTION
from streamfilter.stops import ExitCode, Stop

if TYPE_CHECKING:  # a second of imports, and an extra
    from streamfilter.backup.s3_objects import S3Client, S3Object, S3Upload


def is_s3(path: str) -> bool:
    return path.startswith(S3)


@cache
def client() -> "S3Client":
    """Return the connection of this process; raise `MissingExtra` without the extra."""
    from streamfilter.backup.s3_objects import S3Client

    return S3Client("a path that begins with s3://", alive=INTERRUPTION.obey, raised=_stop)


def _stop(fault: IndexFault) -> Stop:
    from streamfilter.backup.stores import MissingObject

    if isinstance(fault, MissingObject):
        cure = "correct its name; one that stands for all objects below it ends with /"
        return Stop(f"cannot read {fault}\n    cure: {cure}", exit_code=ExitCode.USAGE)
    return as_stop(fault)


def object_at(path: str, *, seeking: bool = False) -> "S3Object":
    """Return a reader of the object at *path*; this and its methods raise `Stop`."""
    from streamfilter.backup.s3_objects import S3Object

    return S3Object(client(), _checked(path), seeking=seeking)


def upload_to(path: str) -> "S3Upload":
    """Begin to write the object at *path*; this and the methods of the answer raise `Stop`."""
    from streamfilter.backup.s3_objects import S3Upload

    return S3Upload(client(), _checked(path)).begin()


def _checked(path: str) -> str:
    bucket, _, key = _without_user(path).removeprefix(S3).partition("/")
    if not bucket or not key or key.endswith("/"):
        raise Stop(f"{path}: is no object; write s3://BUCKET/KEY", exit_code=ExitCode.USAGE)
    return path


def _without_user(path: str) -> str:
    if "@" in path.removeprefix(S3).partition("/")[0]:
        what = "a path has credentials in it; set AWS_ACCESS_KEY_ID and its like"
        raise Stop(what, exit_code=ExitCode.USAGE)
    return path


def objects_of(path: str, wanted: Callable[[str], object]) -> list[str]:
    """Return the objects that *path* names: itself, all below it (``/``), all of a pattern.

    As in directories, all below it are those with a *wanted* name, and hidden ones are left out.
    """
    if not has_magic(path) and not path.endswith("/") and "/" in path.removeprefix(S3):
        return [path]
    try:
        found = [*client().names(_without_user(path))]
    except ValueError as error:
        raise Stop(f"{path}: {error}", exit_code=ExitCode.USAGE) from None
    return [each for each in found if has_magic(path) or wanted(each)]
