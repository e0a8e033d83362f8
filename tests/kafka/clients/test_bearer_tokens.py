"""SASL OAUTHBEARER with tokens of a program: bounded, shared, masked, and renewed in time."""

import base64
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from deploy.local.real import RealKafka
from streamfilter import cli
from streamfilter.kafka.connection.bearer_tokens import (
    LIFE_SECONDS_MAX,
    OUTPUT_BYTES_MAX,
    TokenFailure,
    TokenSource,
    read_token,
    run,
)
from streamfilter.process.logs import Masker
from streamfilter.stops import ExitCode
from tests.kafka.clients.test_broker_examples import example
from tests.support.session.forge import Forge
from tests.support.stage import Stage
from tests.support.topics import Input

NOW = 1_000_000.0
LIFETIME_SECONDS = 6
"""Of the real broker's tokens: several are needed in a test."""
PAUSE_SECONDS = 8.0


def jwt(**claims: Any) -> str:
    def part(fields: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}."


@pytest.mark.parametrize(
    ("said", "value", "expires"),
    [
        (b"secret-token\n", "secret-token", NOW + 60),
        (b'{"access_token": "a", "expires_in": 900}', "a", NOW + 900),
        (b'{"token": "a", "expires_at": 1000100.5, "principal": "p"}', "a", NOW + 100.5),
        (jwt(sub="a", exp=NOW + 7).encode(), jwt(sub="a", exp=NOW + 7), NOW + 7),
        (b"not.a.jwt", "not.a.jwt", NOW + 60),
        (jwt(exp=math.nan).encode(), jwt(exp=math.nan), NOW + 60),
        (b'{"access_token": "a", "expires_in": Infinity}', "a", NOW + LIFE_SECONDS_MAX),
    ],
)
def test_a_token_is_printed_alone_or_as_json_and_says_how_long_it_is_good(said, value, expires):
    token = read_token(said, now=NOW, lifetime=60)
    assert (token.value, token.expires) == (value, expires)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "no token"),
        (b"two words", "no token"),
        (b"{", "broken"),
        (b"{" * 100_000, "broken"),
        (b'{"access_token": 5}', "no token"),
        (b'{"access_token": "a", "expires_in": "soon"}', "as a number"),
        (b'{"access_token": "a", "expires_in": NaN}', "as a number"),
        (b'{"access_token": "a", "expires_in": 1%s}' % (b"0" * 400), "as a number"),
        (b"a\0b", "no token"),
        (b"\xff\xfe", "no token"),
        (b'{"access_token": "a", "expires_at": 1}', "expired 999999 s ago"),
    ],
)
def test_what_is_no_token_is_reported(said, why):
    with pytest.raises(TokenFailure, match=why):
        read_token(said, now=NOW, lifetime=60)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; sys.exit('no credentials')", "ended with 1: no credentials"),
        (f"print('x' * {OUTPUT_BYTES_MAX + 1})", "printed more than"),
        ("import time; time.sleep(60)", "took longer than 0.5 s"),
        ("import os, time; os.close(1); os.close(2); time.sleep(60)", "took longer than 0.5 s"),
        ("import subprocess; subprocess.Popen(['sleep', '60'])", "took longer than 0.5 s"),
    ],
)
def test_a_program_that_fails_hangs_or_floods_is_ended(program, why):
    with pytest.raises(TokenFailure, match=why):
        run([sys.executable, "-c", program], 0.5)


def test_what_a_program_printed_is_in_no_error():
    program = 'echo \'{"token": "half.of-it"}\'; echo cannot use half.of-it at all >&2; exit 3'
    with pytest.raises(TokenFailure, match=r"ended with 3: cannot use \*+ at all"):
        run(["sh", "-c", program], 10)
    with pytest.raises(TokenFailure, match="cannot be started"):
        run(["sh", "-c", "a\0b"], 10)


def test_a_program_that_is_not_there_is_reported():
    with pytest.raises(TokenFailure, match="cannot be started: No such file"):
        run(["/no/such/program"], 1.0)


def test_clients_share_a_token_until_half_of_its_life_and_keep_it_if_none_comes(
    tmp_path, monkeypatch, caplog
):
    runs = tmp_path / "runs"
    program = tmp_path / "token.sh"
    program.write_text(f"echo x >> {runs}; test -e {tmp_path / 'broken'} && exit 9; echo t$$")
    now = [NOW]
    tokens = TokenSource(["sh", str(program)], timeout=5, lifetime=100, wall=lambda: now[0])
    first = tokens("")
    assert first[1] == NOW + 100
    now[0] += 49
    assert tokens("") == first
    now[0] += 1
    second = tokens("")
    assert second != first
    (tmp_path / "broken").touch()
    now[0] += 89
    assert tokens("") == second, "it is good for some time yet"
    assert "sh: ended with 9" in caplog.text
    now[0] += 1
    with pytest.raises(TokenFailure):
        tokens("")
    assert len(runs.read_text().split()) == 4


def test_the_last_two_tokens_are_masked_and_older_ones_forgotten():
    masker = Masker()
    masker.learn(["lasting"])
    for number in range(100):
        masker.renew("oauth", [f"token-{number}"])
    shown = masker.mask("lasting token-97 token-98 token-99")
    assert shown == "******** token-97 ******** ********"


def bearer_listener() -> dict[str, str]:
    """Return what makes a broker's second listener take unsecured tokens."""
    listener = "listener.name.proxied."
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return {
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,PROXIED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "advertised.listeners": "PLAINTEXT://127.0.0.1:$port,PROXIED://127.0.0.1:$proxied_port",
        f"{listener}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{listener}oauthbearer.sasl.jaas.config": (
            f'{module} required unsecuredLoginStringClaim_sub="broker";'
        ),
        f"{listener}connections.max.reauth.ms": "3000",
    }


PROGRAM = f"""
import base64, json, pathlib, sys, time
def part(fields):
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")
now = time.time()
claims = {{"sub": "filter", "iat": now, "exp": now + {LIFETIME_SECONDS}}}
token = part({{"alg": "none"}}) + "." + part(claims) + "."
with open(sys.argv[1], "a") as said:
    said.write(token + "\\n")
answer = {{"access_token": token, "expires_in": {LIFETIME_SECONDS}, "principal": "filter"}}
print(json.dumps(answer))
"""


@pytest.mark.slow(40)
def test_a_filter_works_with_tokens_of_a_program_through_several_of_them(
    forge: Forge, tmp_path: Path
) -> None:
    program, said = tmp_path / "token.py", tmp_path / "said"
    program.write_text(PROGRAM)
    with RealKafka(properties=bearer_listener()) as kafka:
        stage = Stage(kafka.bootstrap, tmp_path, launch=forge.launch)
        secured = f"127.0.0.1:{kafka.nodes[0].ports.proxied}"
        brokers = example("oauthbearer")
        del brokers["common"]["ssl.ca.location"]
        brokers["common"] |= {
            "bootstrap.servers": secured, "security.protocol": "SASL_PLAINTEXT"
        }  # fmt: skip
        brokers["oauth"] = {"command": [sys.executable, str(program), str(said)]}
        configuration = stage.configuration(kafka=brokers)
        assert cli.main(["check", "--connect", "--config", str(configuration)]) == ExitCode.OK
        process = stage.start(kafka=brokers, log={"level": "debug"})
        for number in range(2):
            stage.produce([Input(json.dumps({"id": str(number), "text": "a b c d"}).encode())])
            stage.drain(process)
            time.sleep(PAUSE_SECONDS)
        tokens = said.read_text().split()
        assert len(tokens) > 3, "they expire after some seconds"
        assert process.terminate() == 0
        log = process.log.read_text()
        assert not [token for token in tokens if token in log]
        assert {name: len(came) for name, came in stage.outputs().items()} == {
            "unique": 1,
            "duplicates": 1,
            "dead_letter": 0,
        }


def test_a_program_without_a_token_ends_a_verb_with_75_and_what_it_said(embedded_stage, capsys):
    common = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
    }
    oauth = {"command": ["sh", "-c", "echo no credentials >&2; exit 4"]}
    configuration = embedded_stage().configuration(kafka={"common": common, "oauth": oauth})
    assert cli.main(["peek", "--config", str(configuration)]) == ExitCode.TEMPORARY
    said = capsys.readouterr().err
    assert "kafka.oauth.command gives no token: ended with 4: no credentials" in said


def test_a_check_without_the_brokers_runs_no_program_for_a_token(tmp_path, capsys):
    ran = tmp_path / "ran"
    settings = (
        "kafka.common={security.protocol: sasl_plaintext, sasl.mechanism: OAUTHBEARER}",
        f"kafka.oauth.command=[touch, {ran}]",
        f"index.path={tmp_path / 'state'}",
    )
    given = [part for each in settings for part in ("--set", each)]
    assert cli.main(["check", *given]) == ExitCode.OK, capsys.readouterr()
    assert not ran.exists()
