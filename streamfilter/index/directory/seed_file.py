"""The secret seed from the operator's own file. The same file gives every command the same keys.

Any file of 16 bytes to 1 MiB can be used. The seed is its BLAKE2b-128, so that a hexadecimal text,
a password manager's output and 32 random bytes all work. A symbolic link inside the file's own
directory is followed, because Kubernetes mounts secrets that way. A link that leads out of it is
refused: a user with write access there could choose the seed, or supply an endless file.
"""

import hashlib
import os
from pathlib import Path

from streamfilter.model import SEED_BYTES
from streamfilter.stops import ConfigError, Problem

MEASURING = bytes(SEED_BYTES)  # the seed of measurements: no secret, always the same result

FILE_BYTES_MIN, FILE_BYTES_MAX = 16, 1 << 20


def numbered(number: int) -> bytes:
    """Return the seed of a *number* that a person chose: no secret. 0 is `MEASURING`."""
    return number.to_bytes(SEED_BYTES, "big")


def seed_at(path: Path | None) -> bytes | None:
    """Return the seed from `index.seed_file`; None if it is not set: the index has its own seed."""
    return None if path is None else read_seed(path)


def read_seed(path: Path) -> bytes:
    """Return the seed that the file at *path* gives, or raise `ConfigError`."""
    try:
        content = _content(path)
    except OSError as error:
        raise _refused(f"{path} cannot be read: {error.strerror}", path) from None
    if not FILE_BYTES_MIN <= len(content) <= FILE_BYTES_MAX:
        size = f"{len(content)} bytes" if len(content) < FILE_BYTES_MIN else "more than a megabyte"
        raise _refused(f"{path} holds {size}; expected at least {FILE_BYTES_MIN} bytes", path)
    return hashlib.blake2b(content, digest_size=SEED_BYTES, person=b"streamfilterseed").digest()


def _content(path: Path) -> bytes:
    """Return the beginning of the file at *path*, one byte more than is allowed at most."""
    real = Path(os.path.realpath(path, strict=True))
    if not real.is_relative_to(path.parent.resolve()):
        raise _refused(f"{path} is a symbolic link that leads out of its directory", path)
    if not real.is_file():
        raise _refused(f"{path} is no file", path)
    with real.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def _refused(got: str, path: Path) -> ConfigError:
    cure = f"head -c 32 /dev/urandom > {path}, and keep it for ever"
    return ConfigError([Problem("index.seed_file", got, cure)])
