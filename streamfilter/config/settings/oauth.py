"""Where clients get their tokens from, with SASL's mechanism OAUTHBEARER."""

from __future__ import annotations

import shlex
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from streamfilter.config.settings.types import Duration, Section, parse_duration

OAUTHBEARER = "OAUTHBEARER"
MASK = "********"
TIMEOUT_SECONDS_MAX = 60.0


def _arguments(value: object) -> object:
    """Return the words of a text as a shell would split it, and a list as it is."""
    return shlex.split(value) if isinstance(value, str) else value


def _shown(value: tuple[str, ...] | None) -> list[str] | None:
    """Return the program with its arguments masked: one of them may be a secret."""
    return None if value is None else [*value[:1], *([MASK] * len(value[1:]))]


Command = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    BeforeValidator(_arguments),
    PlainSerializer(_shown),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class OAuthSection(Section):
    """Tokens for SASL OAUTHBEARER by a program, such as a signer for MSK's IAM."""

    command: Command | None = None
    """Program and arguments that print a token; no shell is used. It prints the token alone, or
    JSON: {"access_token": …, "expires_in": seconds}, and perhaps "principal". null: no program.
    sasl.oauthbearer.method: oidc needs none."""
    timeout: Duration = parse_duration("10s")
    """The command is killed after this."""
    lifetime: Duration = parse_duration("5m")
    """Lifetime of a token that states none, neither in the JSON nor as a JWT in its exp."""
