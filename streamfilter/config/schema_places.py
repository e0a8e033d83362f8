"""Checks of where the schemas of values are: a file, or a registry with one way to it."""

import re
from collections.abc import Iterator

from streamfilter.config.configuration import Config
from streamfilter.config.settings.input import RegistrySection
from streamfilter.config.settings.types import format_duration
from streamfilter.stops import Problem

ADDRESS = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")
NO_ADDRESS = "expected http:// or https://, a host, and no user"


def check(config: Config) -> Iterator[Problem]:
    """Formats with schemas have them from one place; no other format has any."""
    given, url = config.input, config.input.registry.url
    if given.message and (given.format, given.framing) != ("protobuf", "none"):
        yield Problem("input.message", "applies only to protobuf values without a frame",
                      "set input.framing: none, or remove input.message")  # fmt: skip
    if not given.has_schema:
        keyed = given.id is not None and given.id.startswith("key#")
        if keyed and url is not None:
            yield from _registry(config, url)
        for key, value, wrong in (("schema_file", given.schema_file, True),
                                  ("registry.url", url, not keyed)):  # fmt: skip
            if value is not None and wrong:
                got = f"does not apply to input.format {given.format}"
                cure = "set input.format: avro or protobuf, or remove this setting"
                yield Problem(f"input.{key}", got, cure)
        return
    if (given.schema_file is None) is (url is None):
        yield Problem("input.schema_file", f"format {given.format} needs one place of its schemas",
                      "name a file such as article.proto, or input.registry.url")  # fmt: skip
    if url is not None:
        yield from _registry(config, url)


def _registry(config: Config, url: str) -> Iterator[Problem]:
    given = config.input.registry
    if not ADDRESS.fullmatch(url):
        yield Problem("input.registry.url", NO_ADDRESS,
                      "write it like https://registry:8081, and put a user into "
                      "input.registry.user")  # fmt: skip
    yield from _credentials(given, https=url.startswith("https:"))
    if not 0.1 <= given.timeout.total_seconds() <= 60:
        yield Problem("input.registry.timeout", f"got {format_duration(given.timeout)}",
                      "use 100ms to 60s; the default is 5s")  # fmt: skip
    if config.input.framing == "none":
        yield Problem("input.framing", "values without a frame do not name their schema",
                      "use input.schema_file instead of a registry")  # fmt: skip


def _credentials(given: RegistrySection, *, https: bool) -> Iterator[Problem]:
    """There is one way to identify us, beside a certificate, and it is whole."""
    oauth = given.oauth
    needed = (oauth.token_url, oauth.client_id, oauth.client_secret)
    ways = {"user": given.user, "token": given.token, "oauth": any(needed) or None}
    first, *others = [name for name, value in ways.items() if value is not None] or [""]
    for other in others:
        got, cure = f"input.registry.{first} is set, too", "remove one of the two"
        yield Problem(f"input.registry.{other}", got, cure)
    if (given.user is None) is not (given.password is None):
        yield Problem("input.registry.user", "a user without a password, or a password without a "
                                             "user",
                      "set both input.registry.user and input.registry.password")  # fmt: skip
    if any(each is not None for each in (*needed, oauth.scope, oauth.ca_file)) and not all(needed):
        yield Problem("input.registry.oauth", "a part of the client is missing",
                      "set token_url, client_id and client_secret, or none of them")  # fmt: skip
    if oauth.token_url and not ADDRESS.fullmatch(oauth.token_url):
        yield Problem("input.registry.oauth.token_url", NO_ADDRESS,
                      "write it like https://id.example.com/oauth2/token")  # fmt: skip
    if given.certificate_file is None and (given.key_file or given.key_password):
        yield Problem("input.registry.key_file", "a key without a certificate",
                      "set input.registry.certificate_file, too")  # fmt: skip
    if given.certificate_file is not None and not https:
        yield Problem("input.registry.certificate_file", "applies only to a registry with TLS",
                      "write input.registry.url with https://")  # fmt: skip
