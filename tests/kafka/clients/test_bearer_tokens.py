"""SASL OAUTHBEARER with tokens of a program: bounded, shared, and masked.

A real broker gets them in `tests/faults/test_security.py`.
"""

import base64
import json
import math
import sys
from typing import Any

import pytest

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
from tests.support.cases import cases

NOW = 1_000_000.0


def jwt(**claims: Any) -> str:
    def part(fields: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}."


@cases(
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


@cases(
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


@cases(
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


@pytest.mark.slow
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
