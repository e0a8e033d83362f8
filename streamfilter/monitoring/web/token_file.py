"""The file with the token that programs send to ask over HTTP (`http.query_token_file`).

It is read for each request, so that a new token needs no restart.
"""

from __future__ import annotations

import stat
from hmac import compare_digest
from os import fstat
from pathlib import Path

from msgspec import Struct

from streamfilter.stops import ConfigError, Problem

CHARACTERS_MIN, CHARACTERS_MAX = 16, 4_096
OTHERS = stat.S_IRWXO | stat.S_IWGRP
"""A group may read it, because Kubernetes mounts secrets that way."""


class TokenFile(Struct, frozen=True):
    """A file with one token, which other users of this host cannot read."""

    path: Path

    def read(self) -> bytes:
        """Return the token, or raise `ConfigError`: the file is no such file."""
        try:
            if not self.path.is_file():  # a pipe would be waited for
                raise self._refused("is no file" if self.path.exists() else "does not exist")
            with self.path.open("rb") as file:
                mode = stat.S_IMODE(fstat(file.fileno()).st_mode)
                content = file.read(CHARACTERS_MAX + 1)  # a part of a longer file is no token
        except OSError as error:
            raise self._refused(f"cannot be read: {error.strerror}") from None
        if mode & OTHERS:
            cure = f"chmod 600 {self.path}"
            raise self._refused(f"has the mode {mode:o}, so others can read or change it", cure)
        token = content.strip()
        if len(token) < CHARACTERS_MIN or len(content) > CHARACTERS_MAX:
            raise self._refused(f"needs {CHARACTERS_MIN} to {CHARACTERS_MAX:,} characters")
        if not all(0x20 < each < 0x7F for each in token):
            raise self._refused("has a space, or a character that is not ASCII")
        return token

    def accepts(self, header: str | None) -> bool:
        """Return whether an Authorization *header* has the token. Raises as `read` does."""
        kind, _, given = (header or "").partition(" ")
        same = compare_digest(given.strip(" ").encode("utf-8", "replace"), self.read())
        return same and kind.lower() == "bearer"

    def _refused(self, got: str, cure: str = "") -> ConfigError:
        made = f"(umask 077; head -c 32 /dev/urandom | base64 > {self.path})"
        return ConfigError([Problem("http.query_token_file", f"{self.path} {got}", cure or made)])
