"""Where clients get their tokens from, with SASL's mechanism OAUTHBEARER."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from streamfilter.config.types import Duration, Section, parse_duration
from streamfilter.stops import Problem

if TYPE_CHECKING:
    from streamfilter.config.configuration import Config

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

    command: Command | None = Field(
        default=None,
        description="Program and arguments that print a token; no shell is used. It prints the "
        'token alone, or JSON: {"access_token": …, "expires_in": seconds}, and '
        'perhaps "principal". null: no program. sasl.oauthbearer.method: oidc needs '
        "none.",
    )
    timeout: Duration = Field(
        default=parse_duration("10s"), description="The command is killed after this."
    )
    lifetime: Duration = Field(
        default=parse_duration("5m"),
        description="Lifetime of a token that states none, neither in the JSON nor as a JWT in "
        "its exp.",
    )


def mechanism_of(config: Config) -> str:
    """Return SASL's mechanism of all clients, in capitals; empty if none is set."""
    given = config.kafka.properties("common")
    return (given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "").upper()


def oauth_problems(config: Config) -> Iterator[Problem]:
    """Say if OAUTHBEARER has no source of tokens, or a source has no OAUTHBEARER."""
    given, oauth = config.kafka.properties("common"), config.kafka.oauth
    sasl = given.get("security.protocol", "").lower().startswith("sasl_")
    bearer = sasl and mechanism_of(config) == OAUTHBEARER
    oidc = given.get("sasl.oauthbearer.method", "").lower() == "oidc"
    unsecured = given.get("enable.sasl.oauthbearer.unsecure.jwt", "").lower() == "true"
    if bearer and not (oidc or unsecured or oauth.command):
        yield Problem("kafka.common.sasl.mechanism", "OAUTHBEARER has no source of tokens",
                      "set kafka.oauth.command, or sasl.oauthbearer.method: oidc with "
                      "sasl.oauthbearer.token.endpoint.url, client.id and client.secret"
                      )  # fmt: skip
    if oauth.command and oidc:
        yield Problem("kafka.oauth.command", "sasl.oauthbearer.method: oidc gets tokens, too",
                      "remove one of the two")  # fmt: skip
    elif oauth.command and not bearer:
        yield Problem("kafka.oauth.command", "a token needs the SASL mechanism OAUTHBEARER",
                      "set kafka.common.security.protocol: sasl_ssl and sasl.mechanism: "
                      "OAUTHBEARER, or leave it out")  # fmt: skip
    if not 0.1 <= oauth.timeout.total_seconds() <= TIMEOUT_SECONDS_MAX:
        yield Problem(
            "kafka.oauth.timeout",
            "expected 100ms to 60s",
            "set kafka.oauth.timeout: 10s, the default",
        )
    if oauth.lifetime.total_seconds() < 1:
        yield Problem(
            "kafka.oauth.lifetime",
            "expected at least 1s",
            "set kafka.oauth.lifetime: 5m, the default",
        )
