"""A registry behind OAuth or mutual TLS: a real token endpoint, and a server with certificates."""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamfilter import cli
from streamfilter.assembly import registry_for
from streamfilter.config.loading import load_config
from streamfilter.documents.codecs.registry import Registry
from streamfilter.documents.codecs.registry_calls import Access
from streamfilter.documents.codecs.registry_tokens import (
    PAUSE_SECONDS,
    YOUNG_SECONDS,
    Client,
    ClientTokens,
)
from streamfilter.documents.codecs.schemas import SchemasAway, SchemasWithheld
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.stops import ConfigError
from tests.documents import test_avro
from tests.documents.identity_provider import SECRET
from tests.documents.registry_stub import Clock, Handler, serving, url
from tests.support.secure import Authority
from tests.support.texts import ROOT
from tests.support.values import replace

__all__ = ["url"]

SCHEMA = {"schema": '{"type":"record","name":"A","fields":[]}'}
SEVEN = "/schemas/ids/7"


@dataclass
class Provider:
    """The process of an identity provider."""

    client: Client
    process: subprocess.Popen[str]

    def asked(self) -> list[str]:
        """Return what was asked for; it answers no more."""
        self.process.kill()
        assert self.process.stdout is not None
        return self.process.stdout.read().splitlines()


@contextmanager
def providing() -> Iterator[Provider]:
    command = [sys.executable, "-m", "tests.documents.identity_provider"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        address = f"http://127.0.0.1:{int(process.stdout.readline())}/oauth2/token"
        yield Provider(Client(address, "number", SECRET), process)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def provider() -> Iterator[Provider]:
    """One of its own: it counts its tokens, can be killed, and says what it was asked."""
    with providing() as found:
        yield found


@pytest.fixture(scope="module")
def any_provider() -> Iterator[Provider]:
    """The same for all that only ask it."""
    with providing() as found:
        yield found


def test_a_registry_gets_tokens_that_are_renewed_in_time_and_once_when_it_refuses_one(
    provider, url
):
    """Their clock is the test's: a token lives for 100 s."""
    Handler.answers |= {f"/schemas/ids/{each}": (200, SCHEMA) for each in range(9)}
    clock = Clock()
    registry = Registry(
        Access(url, headers=(("target-sr-cluster", "lsrc-1"),)),
        client=replace(provider.client, scope="a b"),
    )
    tokens = registry._calls._bearer
    tokens._clock = clock
    for id, clock.now in enumerate((0.0, 79.0, 81.0)):
        registry.schema(id)
    assert [given for _, given in Handler.asked] == ["Bearer token-1"] * 2 + ["Bearer token-2"]
    assert set(Handler.clusters) == {"lsrc-1"}
    Handler.refused = {"Bearer token-2", "Bearer token-3"}
    with pytest.raises(SchemasWithheld, match="HTTP 401"):
        registry.schema(3)  # it is too young to have expired
    clock.now += YOUNG_SECONDS
    with pytest.raises(SchemasWithheld, match="HTTP 401"):
        registry.schema(3)  # once
    Handler.refused.clear()
    registry.schema(3)
    assert [given for _, given in Handler.asked[3:]] == [
        "Bearer token-2", "Bearer token-2", "Bearer token-3", "Bearer token-3"
    ]  # fmt: skip
    assert provider.asked() == ["/oauth2/token number ['a b']"] * 3


def test_while_the_endpoint_is_away_a_token_is_used_to_its_end_and_then_records_wait(provider):
    clock = Clock()
    tokens = ClientTokens(replace(provider.client, id="text"), clock)
    assert tokens.current() == "token-1"
    provider.process.kill()
    provider.process.wait()
    clock.now = 99.0
    assert tokens.current() == "token-1"
    clock.now = 100.0
    with pytest.raises(SchemasAway, match="refused") as away:
        tokens.current()
    assert not isinstance(away.value, SchemasWithheld)


def test_a_token_without_an_end_is_used_until_it_is_refused(provider):
    clock = Clock()
    tokens = ClientTokens(replace(provider.client, id="endless"), clock)
    for clock.now in (0.0, 1e9):
        assert tokens.current() == "token-1"
    assert tokens.refused("token-1")
    assert tokens.current() == "token-2"
    assert tokens.refused("token-1"), "another thread has renewed it meanwhile"


def test_a_wrong_secret_is_said_with_its_cure_and_not_tried_again_at_once(provider):
    clock = Clock()
    tokens = ClientTokens(replace(provider.client, secret="hunter2"), clock)
    for clock.now in (0.0, PAUSE_SECONDS - 1, PAUSE_SECONDS + 1):
        with pytest.raises(SchemasWithheld) as caught:
            tokens.current()
        said = str(caught.value)
        assert "HTTP 401 Unauthorized: invalid_client: \\x1b[31m******** is wrong" in said
        assert "check token_url, client_id, client_secret and scope" in said
        assert "hunter2" not in said + repr(tokens._client)
    assert len(provider.asked()) == 2


@pytest.mark.parametrize(
    ("id", "words", "kind"),
    [*((each, "holds no access_token", SchemasAway)
       for each in ("page", "list", "bomb", "no token", "two lines", "huge")),
     *((each, "expires_in is no number", SchemasAway) for each in ("no number", "nan")),
     ("slow", "no end after", SchemasAway), ("busy", "HTTP 429", SchemasAway),
     ("down", "HTTP 503", SchemasAway), ("moved", "HTTP 302", SchemasAway),
     ("elsewhere", "HTTP 404 Not Found; check token_url", SchemasWithheld)],
)  # fmt: skip
def test_what_is_no_token_makes_records_wait_and_is_never_their_fault(
    id, words, kind, any_provider, url
):
    Handler.answers[SEVEN] = (200, SCHEMA)
    client = replace(any_provider.client, id=id, seconds=1.0 if id == "slow" else 10.0)
    with pytest.raises(SchemasAway, match=words) as caught:
        Registry(Access(url), client=client).schema(7)
    assert type(caught.value) is kind
    assert "Evil" not in str(caught.value)
    assert Handler.asked == []


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def guarded(authority: Authority, url: str) -> Iterator[str]:
    """Yield the address of a registry that demands a certificate of the authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.load_cert_chain(authority.issue("server"))
    context.verify_mode = ssl.CERT_REQUIRED
    Handler.answers[SEVEN] = (200, SCHEMA)
    with serving(tls=context) as port:
        yield f"https://127.0.0.1:{port}"


def settings(address: str, authority: Authority, **given: object) -> list[str]:
    given |= {"url": address, "ca_file": authority.certificate}
    return ["input.format=avro", *(f"input.registry.{key}={value}" for key, value in given.items())]


def test_a_registry_that_demands_a_certificate_gets_ours(guarded, authority):
    whole = authority.issue("ours")
    key, certificate = authority.issue_encrypted("locked", "a password")
    for given in (
        {"certificate_file": whole},
        {"certificate_file": whole.with_suffix(".crt"), "key_file": whole.with_suffix(".key")},
        {"certificate_file": certificate, "key_file": key, "key_password": "a password"},
    ):
        config = load_config((), {}, settings(guarded, authority, **given))
        assert registry_for(config).schema(7).text == SCHEMA["schema"]
    with pytest.raises(SchemasAway, match=r"check input\.registry\.certificate_file"):
        registry_for(load_config((), {}, settings(guarded, authority))).schema(7)


def test_a_certificate_that_is_renewed_on_disk_is_used_without_a_restart(guarded, authority):
    ours = authority.issue("expired", days=-1)
    registry = Registry(
        Access(guarded, ca_file=str(authority.certificate), certificate_file=str(ours))
    )
    with pytest.raises(SchemasAway):
        registry.schema(7)
    authority.issue("expired")
    assert registry.schema(7)


def test_files_that_do_not_fit_are_named_before_the_start(guarded, authority, tmp_path, capfd):
    key, certificate = authority.issue_encrypted("closed", "a password")
    other = authority.issue("other")
    for given in (
        {"certificate_file": tmp_path / "none.pem"},
        {"certificate_file": certificate},
        {"certificate_file": certificate, "key_file": other.with_suffix(".key")},
        {"certificate_file": certificate, "key_file": key},
        {"certificate_file": certificate, "key_file": key, "key_password": "hunter2"},
    ):
        with pytest.raises(ConfigError) as caught:
            registry_for(load_config((), {}, settings(guarded, authority, **given)))
        (problem,) = caught.value.problems
        assert problem.key == "input.registry.certificate_file"
        assert "key_file" in problem.cure
        assert "hunter2" not in str(problem)
    assert "pass phrase" not in "".join(capfd.readouterr()), "nothing is asked at the terminal"
    oauth = {"token_url": "https://id/", "client_id": "a", "client_secret": "b",
             "ca_file": tmp_path / "none"}  # fmt: skip
    given = {f"oauth.{key}": value for key, value in oauth.items()}
    with pytest.raises(ConfigError, match=r"input\.registry\.oauth\.ca_file: cannot read"):
        registry_for(load_config((), {}, settings(guarded, authority, **given)))


def test_check_says_that_the_registry_agrees_or_what_is_wrong_with_the_client(
    any_provider, url, capsys, monkeypatch, alone
):
    Handler.answers["/subjects/articles-value/versions/latest"] = (
        200, {"schema": json.dumps(test_avro.ARTICLE)},
    )  # fmt: skip
    with EmbeddedBroker() as broker:
        topics = "articles", "articles.unique", "articles.duplicates", "articles.dead-letter"
        broker.create_topics(dict.fromkeys(topics, 1))
        given = [
            "input.format=avro", "input.topic=articles", f"input.registry.url={url}",
            f"kafka.common.bootstrap.servers={broker.bootstrap}", "kafka.start_timeout=1s",
            f"input.registry.oauth.token_url={any_provider.client.token_url}",
            "input.registry.oauth.client_id=number",
        ]  # fmt: skip
        arguments = [each for one in given for each in ("--set", one)]
        secret = "STREAMFILTER_INPUT__REGISTRY__OAUTH__CLIENT_SECRET"
        monkeypatch.setenv(secret, SECRET)
        assert cli.main(["check", "--connect", *arguments]) == 0
        assert "(the broker and the registry agree)" in capsys.readouterr().out
        monkeypatch.setenv(secret, "hunter2")
        assert cli.main(["check", "--connect", *arguments]) == 75
        said = capsys.readouterr().out
        assert "check token_url, client_id, client_secret" in said
        assert "hunter2" not in said


@pytest.mark.parametrize("path", sorted((ROOT / "config" / "registries").glob("*.yaml")), ids=str)
def test_an_example_is_a_configuration_beside_the_starter(path: Path, tmp_path: Path) -> None:
    text = path.read_text().replace("/run/secrets", str(tmp_path))
    (tmp_path / "registry-client").write_text("a secret")
    (tmp_path / path.name).write_text(text)
    config = load_config([ROOT / "config" / "streamfilter.yaml", tmp_path / path.name])
    assert config.input.registry.url == "https://registry:8081"
    assert os.path.basename(path) in text
