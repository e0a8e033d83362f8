"""POST /query: "have you seen this?", for programs with a token. Nothing else makes it read."""

import json
import socket
import threading
from contextlib import contextmanager, suppress
from http.client import HTTPConnection

import pytest

from streamfilter import Deduplicator
from streamfilter.commands.run import query_tokens
from streamfilter.config.loading import load_config
from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.web import http, questions
from streamfilter.monitoring.web.http import Server
from streamfilter.monitoring.web.pages import Pages
from streamfilter.monitoring.web.questions import BODY_BYTES_MAX, Questions
from streamfilter.monitoring.web.token_file import TokenFile
from streamfilter.process.health import Health, State
from streamfilter.stops import ConfigError, ExitCode
from tests.http.test_questions import no_hurry  # noqa: F401 (a fixture)
from tests.http.test_server import ask

TOKEN = "correct-horse-battery-staple"
WORDS = "the old mill by the river was sold to a young family from the city on"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return TokenFile(path)


@pytest.fixture
def health():
    health = Health()
    health.enter(State.STANDBY)
    health.report(restore_remaining=7)
    return health


@contextmanager
def serving(health, *options, tokens):
    pages = Pages(health, Metrics(health), questions=Questions(options, tokens))
    with Server("127.0.0.1", 0, pages=pages) as server:
        yield server, pages


def post(server, body=b"", path="/query", /, **headers):
    """Return the status and the answer; a header's name may have ``_`` for ``-``."""
    connection = HTTPConnection(*server.address, timeout=300)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path, body, named)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def results(pages):
    names = ("answered", "refused", "busy", "failed")
    return {name: int(pages.metrics.value("questions_total", name)) for name in names}


@pytest.mark.slow
@pytest.mark.usefixtures("no_hurry")
def test_a_text_or_a_record_is_answered_with_its_matches_and_how_far_the_index_is(
    tmp_path, health, token
):
    state = tmp_path / "memory"
    with Deduplicator(state, threshold=0.8) as stories:
        stories.add("a", f"{WORDS} monday")
        stories.add("b", f"{WORDS} tuesday \0 \U0001f600")
    (tmp_path / "f.yaml").write_text(
        f"input: {{topic: t, text: /body, id: /uuid}}\nindex: {{path: {state}}}\n"
    )
    with serving(health, f"--config={tmp_path / 'f.yaml'}", tokens=token) as (server, pages):
        text = {**RIGHT, "Content_Type": "text/plain; charset=utf-8"}
        code, body = post(
            server, f"{WORDS} monday".encode(), "/query?limit=1&threshold=0.7", **text
        )
        answer = json.loads(body)
        assert code == 200
        assert [each["id"] for each in answer["matches"]] == ["a"]
        assert answer["matches"][0]["similarity"] == 1.0
        assert (answer["duplicates"], answer["threshold"]) == (2, 0.7)
        assert (answer["state"], answer["restore_remaining_records"]) == ("standby", 7)
        assert answer["lag_records"] is None
        record = json.dumps({"body": f"{WORDS} tuesday", "more": "\0"}).encode()
        code, body = post(server, record, **RIGHT)
        assert (code, json.loads(body)["matches"][0]["id"]) == (200, "b")
        assert post(server, b"", **text)[0] == 200, "an empty text has no duplicates"
        assert post(server, b"\0" * 1_000, **text)[0] == 200
        assert post(server, b'{"body": "\\ud800"}', **RIGHT)[0] == 200, "as the filter reads it"
        for wrong in (b"{}", b"\xff\xfe", b"[" * 100_000, b""):
            code, body = post(server, wrong, **RIGHT)
            assert (code, "such a record is not judged" in json.loads(body)["error"]) == (400, True)
        code, body = post(server, b"\xff", **text)
        said = json.loads(body)["error"]
        assert (code, said[:40]) == (400, "Invalid value: cannot read standard inpu")
        other = f"{WORDS} monday".encode("utf-16")
        utf16 = {**RIGHT, "Content_Type": 'text/plain; charset="UTF-16"'}
        code, body = post(server, other, **utf16)
        assert (code, "charset is utf-16; send UTF-8" in str(body)) == (400, True)
        assert post(server, b"x", "/query?scope=north", **text)[0] == 400, "it has no scope"
        assert post(server, b"x", "/query?threshold=7", **text)[0] == 400
        assert results(pages) == {"answered": 5, "refused": 8, "busy": 0, "failed": 0}


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        ("/query", {}, 401),
        ("/query", {"Authorization": TOKEN}, 401),
        ("/query", {"Authorization": f"Basic {TOKEN}"}, 401),
        ("/query", {"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ("/query", {"Authorization": f"Bearer {TOKEN}x"}, 401),
        ("/query", {"Authorization": "Bearer "}, 401),
        ("/query", {"Authorization": "Bearer é\xff"}, 401),
        ("/query", {**RIGHT, "Host": "evil.example"}, 403),
        ("/query", {**RIGHT, "Content-Length": str(BODY_BYTES_MAX + 1)}, 413),
        ("/query", {**RIGHT, "Content-Length": "9" * 5_000}, 411),
        ("/query", {**RIGHT, "Content-Length": "-1"}, 411),
        ("/query", {**RIGHT, "Content-Length": "²"}, 411),
        ("/query", {**RIGHT, "Transfer-Encoding": "chunked"}, 411),
        ("/query", {**RIGHT, "Transfer-Encoding": "chunked", "Content-Length": "9"}, 411),
        ("/query?state=/etc", RIGHT, 400),
        ("/query?limit", RIGHT, 400),
        ("/query?scope=%ff", RIGHT, 400),
        ("/query?scope=%00", RIGHT, 400),
        ("/query?" + "field=/a=b&" * 21 + "limit=1", RIGHT, 400),
        ("/", RIGHT, 405),
        ("/explain", RIGHT, 405),
    ],
)
def test_what_is_no_question_starts_no_command(path, headers, code, health, token, monkeypatch):
    monkeypatch.setattr(questions, "_ended", None)
    with serving(health, "--config=x", tokens=token) as (server, _):
        given = {name.replace("-", "_"): each for name, each in headers.items()}
        assert (
            post(server, None if "Transfer-Encoding" in headers else b"", path, **given)[0] == code
        )


def test_it_is_off_without_a_token_file_and_one_that_others_can_read_is_none(health, token):
    with serving(health, "--config=x", tokens=None) as (server, _):
        assert post(server, b"x", **RIGHT)[0] == 404
    with serving(health, "--config=x", tokens=token) as (server, pages):
        for mode in (0o604, 0o620, 0o777):
            token.path.chmod(mode)
            code, body = post(server, b"x", **RIGHT)
            assert code == 503
            assert str(token.path).encode() not in body
        token.path.chmod(0o640)
        token.path.write_text("another-token-of-these-days")
        assert post(server, b"x", **RIGHT)[0] == 401, "it was renewed"
        token.path.unlink()
        assert post(server, b"x", **RIGHT)[0] == 503
        assert results(pages)["failed"] == 4


@pytest.mark.parametrize(
    "content",
    [
        "",
        "short",
        "x" * 4_097,
        "with a space in it",
        "sixteen-letters-é",
        f"{TOKEN}{' ' * 4_096}and more",
    ],
)
def test_a_token_that_is_none_is_refused_at_the_start_with_its_cure(content, token):
    token.path.write_text(content)
    settings = ("http.query=true", f"http.query_token_file={token.path}")
    with pytest.raises(ConfigError) as refused:
        query_tokens(load_config((), overrides=settings))
    assert f"base64 > {token.path}" in str(refused.value)
    assert "with a" not in str(refused.value)


def test_a_token_that_others_can_read_is_refused_at_the_start_with_its_cure(token):
    token.path.chmod(0o644)
    settings = ("http.query=true", f"http.query_token_file={token.path}")
    with pytest.raises(ConfigError, match="so others can read or change it") as refused:
        query_tokens(load_config((), overrides=settings))
    assert f"chmod 600 {token.path}" in str(refused.value)


def test_a_query_without_a_token_file_is_no_configuration():
    with pytest.raises(ConfigError, match=r"http\.query_token_file.*names no file") as refused:
        load_config((), overrides=("http.query=true",))
    assert refused.value.exit_code is ExitCode.CONFIG


def test_a_long_body_that_is_refused_gets_its_answer(health, token):
    with serving(health, "--config=x", tokens=token) as (server, _):
        code, body = post(server, b"x" * 2 * BODY_BYTES_MAX)
        assert (code, b"Bearer TOKEN" in body) == (401, True)


def test_probes_are_answered_while_slow_clients_with_the_token_hold_all_places(health, token):
    with serving(health, "--config=x", tokens=token) as (server, _):
        slow = [socket.create_connection(server.address) for _ in range(2 * http.REQUESTS_MAX)]
        for each in slow:
            head = f"POST /query HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9"
            with suppress(OSError):  # its place was given to another one
                each.sendall(f"{head}\r\n\r\n1".encode())
        for _ in range(5):
            assert ask(server, "/livez")[0] == 200
        for each in slow:
            each.close()


def test_one_is_answered_at_a_time_and_a_flood_is_refused_at_once(health, token, monkeypatch):
    asked, proceed = threading.Event(), threading.Event()

    def slow(command, body):
        if "query" in command:
            asked.set()
            proceed.wait(60)
        return 0, b'{"matches": []}'

    monkeypatch.setattr(questions, "_ended", slow)
    with serving(health, "--config=x", tokens=token) as (server, pages):
        first = threading.Thread(target=post, args=[server, b"x"], kwargs=RIGHT)
        first.start()
        assert asked.wait(60)
        for _ in range(20):
            assert post(server, b"x", **RIGHT)[0] == 503
        assert ask(server, "/explain?id=a")[0] == 200, "it has a place of its own"
        proceed.set()
        first.join()
        assert results(pages) == {"answered": 2, "refused": 0, "busy": 20, "failed": 0}
        for code, output, expected in (
            (-9, b"so far", 503), (1, b"MemoryError", 503), (70, b"Traceback", 503),
            (78, b"no index", 503),
            (64, b"cure", 400), (-9, b"x" * questions.ANSWER_BYTES_MAX, 400),
            (0, b"x" * questions.ANSWER_BYTES_MAX, 400),
        ):  # fmt: skip
            monkeypatch.setattr(questions, "_ended", lambda *_, ended=(code, output): ended)
            status, answer = post(server, b"x", **RIGHT)
            assert (status, b"Traceback" in answer) == (expected, False)
