"""Gets tokens for SASL OAUTHBEARER from a program (`kafka.oauth.command`), for all clients.

librdkafka requests a token when a client is created, and again after four fifths of the token's
lifetime, in its own thread. Clients share a token for the first half of its lifetime. A process
has five clients or more, and otherwise each would run the program. The program's run time and
output size are limited, and a token is never written to a log.
"""

import base64
import json
import logging
import math
import os
import re
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from msgspec import Struct

from streamfilter.config.configuration import Config
from streamfilter.process.logs import MASKER, Masker

logger = logging.getLogger("streamfilter.kafka")

OUTPUT_BYTES_MAX = 256 * 1024
SHOWN_CHARACTERS_MAX = 300
COMPLAINT_BYTES_MAX = 16 * 1024
"""Bytes of the end of stderr in which secrets are masked: more than is shown, for a secret that the
cut would split."""
SHARED_SHARE = 0.5  # share of a token's lifetime in which other clients get the same token

GOOD_SHARE = 0.9  # of a token's lifetime, if the program gives no newer one

LIFE_SECONDS_MAX = 10 * 366 * 86_400.0  # librdkafka counts milliseconds in 64 bits

_TOKEN = re.compile(r"[!-~]+")  # the characters of a token that brokers accept


class TokenFailure(Exception):
    """The program gave no token. The message says why and contains no secret."""


class BearerToken(Struct, frozen=True):
    """A token in the form that librdkafka needs."""

    value: str
    expires: float  # Unix time
    principal: str = ""

    @property
    def answer(self) -> tuple[str, float, str, dict[str, str]]:
        """Return what a client's ``oauth_cb`` returns."""
        return self.value, self.expires, self.principal, {}


def read_token(said: bytes, *, now: float, lifetime: float) -> BearerToken:
    """Return the token that a program printed, as text or JSON, or raise `TokenFailure`."""
    text = said.decode(errors="replace").strip()
    fields: dict[str, Any] = {"access_token": text}
    if text.startswith("{"):
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            raise TokenFailure("it printed JSON that is broken") from None
    value = fields.get("access_token", fields.get("token"))
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise TokenFailure('it printed no token: one word, or JSON with "access_token"')
    expires = min(_expiry(fields, value, now + lifetime, now), now + LIFE_SECONDS_MAX)
    if expires <= now:
        raise TokenFailure(f"its token expired {now - expires:.0f} s ago")
    return BearerToken(value, expires, str(fields.get("principal", "")))


def _expiry(fields: dict[str, Any], value: str, otherwise: float, now: float) -> float:
    try:
        if "expires_in" in fields:
            return now + _number(fields["expires_in"])
        if "expires_at" in fields:
            return _number(fields["expires_at"])
    except (TypeError, ValueError, OverflowError):
        raise TokenFailure("expires_in and expires_at are seconds, as a number") from None
    return _jwt_expiry(value) or otherwise


def _number(value: Any) -> float:
    number = float(value)
    if math.isnan(number):  # a comparison with it would never find the token expired
        raise ValueError
    return number


def _jwt_expiry(token: str) -> float | None:
    """Return the ``exp`` of a JWT; None of another token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    with suppress(ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return _number(claims.get("exp"))
    return None


class TokenSource:
    """Runs a program that prints tokens, one run at a time, and gives each token to all clients."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        lifetime: float,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._command, self._timeout, self._lifetime = tuple(command), timeout, lifetime
        self._wall = wall
        self._lock = threading.Lock()
        self._token: BearerToken | None = None
        self._shared_until = self._good_until = 0.0

    def __call__(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """Return a token to librdkafka's callback, which retries later after a `TokenFailure`."""
        return self.current().answer

    def current(self) -> BearerToken:
        """Return a token that remains valid for some time, or raise `TokenFailure`."""
        with self._lock:
            now = self._wall()
            if self._token is None or now >= self._shared_until:
                try:
                    self._renew(now)
                except TokenFailure as failure:
                    logger.error("kafka.oauth.command: %s: %s", self._command[0], failure)
                    if self._token is None or now >= self._good_until:
                        raise
            assert self._token is not None
            return self._token

    def _renew(self, now: float) -> None:
        said = run(self._command, self._timeout)
        token = read_token(said, now=now, lifetime=self._lifetime)
        MASKER.renew("oauth", [token.value])
        life, self._token = token.expires - now, token
        self._shared_until = now + SHARED_SHARE * life
        self._good_until = now + GOOD_SHARE * life


def run(command: Sequence[str], seconds: float) -> bytes:
    """Return the output of *command*, or raise `TokenFailure`."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise TokenFailure(f"cannot be started: {error.strerror}") from None
    except ValueError as error:  # a null character in an argument
        raise TokenFailure(f"cannot be started: {error}") from None
    with process:
        try:
            said, complained = _read(process, time.monotonic() + seconds, seconds)
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children too: they hold our pipes
            raise TokenFailure(f"took longer than {seconds:g} s (kafka.oauth.timeout)") from None
        except TokenFailure:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if code != 0:
        raise TokenFailure(f"ended with {code}: {_shown(complained, said) or 'it said nothing'}")
    return said


def _shown(complained: bytes, said: bytes) -> str:
    """Return the end of a program's stderr, with secrets and the words of its stdout masked."""
    mask = Masker()
    text = said.decode(errors="replace")
    mask.learn([text.strip(), *re.findall(r'[^\s"{}:,]{8,}', text)])
    end = complained[-COMPLAINT_BYTES_MAX:].decode(errors="replace")
    why = mask.mask(MASKER.mask(end))
    return why.strip()[-SHOWN_CHARACTERS_MAX:]


def _read(process: subprocess.Popen[bytes], deadline: float, seconds: float) -> tuple[bytes, bytes]:
    """Return stdout and stderr of *process*, read until both are closed."""
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    came = {pipe.fileno(): bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for pipe in came:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(process.args, seconds)
            for key, _ in ready:
                pipe = key.fd
                piece = os.read(pipe, 1 << 16)
                if not piece:
                    selector.unregister(pipe)
                came[pipe] += piece
                if len(came[pipe]) > OUTPUT_BYTES_MAX:
                    raise TokenFailure(f"printed more than {OUTPUT_BYTES_MAX:,} bytes")
    said, complained = map(bytes, came.values())
    return said, complained


def tokens_of(config: Config) -> TokenSource | None:
    """Return the token source for the clients of *config*; None: no program is configured."""
    oauth = config.kafka.oauth
    if oauth.command is None:
        return None
    return _tokens(oauth.command, oauth.timeout.total_seconds(), oauth.lifetime.total_seconds())


@cache
def _tokens(command: tuple[str, ...], timeout: float, lifetime: float) -> TokenSource:
    return TokenSource(command, timeout=timeout, lifetime=lifetime)
