"""The secret seed from the operator's own file: the same file, the same keys, whichever verb.

Any file of at least 16 bytes will do; its BLAKE2b-128 is the seed, so that a hexadecimal text,
a password manager's output and 32 random bytes serve alike.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from streamfilter.stops import ConfigError, Problem

SEED_BYTES = 16
FILE_BYTES_MIN = 16


def read_seed(path: Path) -> bytes:
    """Return the seed that the file at *path* gives.

    Raises:
        ConfigError: it cannot be read, or holds too little to be a secret.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _refused(f"{path} cannot be read: {error.strerror}", path) from None
    if len(content) < FILE_BYTES_MIN:
        got = f"{path} holds {len(content)} bytes; expected at least {FILE_BYTES_MIN}"
        raise _refused(got, path)
    return hashlib.blake2b(content, digest_size=SEED_BYTES, person=b"streamfilterseed").digest()


def _refused(got: str, path: Path) -> ConfigError:
    cure = f"head -c 32 /dev/urandom > {path}, and keep it for ever"
    return ConfigError([Problem("index.seed_file", got, cure)])
