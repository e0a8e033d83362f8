"""`init`: a first configuration, from a topic's records, from answers, or from nothing."""

import json
import sys

import pytest
from confluent_kafka import Producer

from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.config.starter import StarterFile
from streamfilter.documents.proposal import propose
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.preflight.proposals import described
from tests.support.machine.terminal import in_terminal

TEXT = "the old mill by the river was sold to a young family from the city"


pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as embedded:
        embedded.create_topics({"articles": 3, "lines": 1, "empty": 1, "framed": 1})
        producer = Producer({"bootstrap.servers": embedded.bootstrap})
        for number in range(90):
            producer.produce("articles", value=article(number), partition=number % 3)
            producer.produce("lines", value=TEXT.encode())
            producer.produce("framed", value=b"\0\0\0\0\7\2a")
        producer.flush(30)
        yield embedded.bootstrap


def article(number: int) -> bytes:
    """Return a record with a title, a body, a time and two numbers, one of them its id."""
    return json.dumps(
        {
            "sent": f"2026-11-23T07:00:{number:02}Z",
            "sequence": number,
            "article": {
                "articleId": f"a-{number}",
                "title": TEXT[:16],
                "body": f"{TEXT} {TEXT} {TEXT}",
                "tags": ["one two three four five six seven eight nine"],
            },
        }
    ).encode()


def test_without_a_terminal_nothing_is_asked_and_the_defaults_are_written(tmp_path, capsys):
    assert cli.main(["init"]) == 0
    assert "streamfilter check --config streamfilter.yaml --connect" in capsys.readouterr().err
    config = load_config([tmp_path / "streamfilter.yaml"], {})
    assert config.input == load_config((), {}).input
    schema = json.loads((tmp_path / "streamfilter.schema.json").read_text())
    assert schema["title"] == "streamfilter"
    written = (tmp_path / "streamfilter.yaml").read_text()
    assert written.startswith("# yaml-language-server: $schema=streamfilter.schema.json\n")


def test_text_and_id_are_proposed_from_the_records_of_the_topic(broker, tmp_path, capsys):
    assert cli.main(["init", "--broker", broker, "--topic", "articles", "news.yaml"]) == 0
    said = capsys.readouterr().err
    assert "90 records of articles: text at /article/body (45 words at the median" in said
    assert "id at /article/articleId" in said
    config = load_config([tmp_path / "news.yaml"], {})
    assert (config.input.text, config.input.id) == (("/article/body",), "/article/articleId")
    assert config.kafka.properties("common")["bootstrap.servers"] == broker
    assert config.output.unique == "articles.unique"


def test_records_that_are_plain_text_are_read_as_that(broker, tmp_path, capsys):
    assert cli.main(["init", "--broker", broker, "--topic", "lines"]) == 0
    assert "90 records of lines: plain text" in capsys.readouterr().err
    assert load_config([tmp_path / "streamfilter.yaml"], {}).input.format == "text"


def test_what_was_given_is_not_overruled_and_an_empty_topic_is_said_to_be(broker, tmp_path, capsys):
    given = ["--text", "/article/title", "--id", "/sequence"]
    assert cli.main(["init", "--broker", broker, "--topic", "articles", *given]) == 0
    found = load_config([tmp_path / "streamfilter.yaml"], {}).input
    assert (found.text, found.id) == (("/article/title",), "/sequence")
    assert cli.main(["init", "--broker", broker, "--topic", "empty", "--force"]) == 0
    assert "empty holds no records" in capsys.readouterr().err
    assert cli.main(["init", "--broker", broker, "--topic", "framed", "--force"]) == 0
    assert (
        "90 records of framed: each value begins with the id of a registry"
        in capsys.readouterr().err
    )


def test_a_topic_that_is_not_there_is_reported_with_those_that_are(broker, tmp_path, capsys):
    assert cli.main(["init", "--broker", broker, "--topic", "article"]) == 78
    assert (
        "did you mean articles? topics there: articles, empty, framed, lines"
        in capsys.readouterr().err
    )
    assert cli.main(["init", "--broker", broker]) == 64
    assert (
        "--broker needs --topic; there are articles, empty, framed, lines"
        in capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_written_over_and_no_wrong_pointer_written(tmp_path, capsys):
    (tmp_path / "streamfilter.yaml").write_text("mine")
    assert cli.main(["init"]) == 64
    assert "or overwrite it with --force" in capsys.readouterr().err
    assert (tmp_path / "streamfilter.yaml").read_text() == "mine"
    assert cli.main(["init", "other.yaml", "--text", "body"]) == 78
    assert "expected a JSON Pointer" in capsys.readouterr().err


def test_a_terminal_is_asked_and_what_was_seen_is_the_default(broker, tmp_path):
    answers = [broker, "articles", "", "/sequence"]
    seen = in_terminal(["init"], typed="".join(f"{each}\n" for each in answers), directory=tmp_path)
    assert seen.code == 0, seen.plain
    assert "topics there: articles, empty, framed, lines" in seen.plain
    found = load_config([tmp_path / "streamfilter.yaml"], {}).input
    assert (found.topic, found.text, found.id) == ("articles", ("/article/body",), "/sequence")


@pytest.mark.parametrize(
    ("values", "text", "identity"),
    [
        ([b'{"id": 7, "text": "a b"}', b'{"id": 8, "text": "c d"}'], "/text", "/id"),
        ([b'{"id": 7, "text": "a b"}', b'{"id": 7, "text": "c d"}'], "/text", None),
        ([b'{"a/b": "one two", "x~y_id": "k"}'], "/a~1b", "/x~0y_id"),
        ([b'{"0": "one two three", "b": "one two"}', None, b""], "/b", None),
        ([b'{"grid": "1", "valid": "2", "b": "one two"}'], "/b", None),
        ([b'{"n": 1}'], None, None),
    ],
)
def test_what_is_proposed(values, text, identity):
    found = propose(values)
    assert (found.format, found.text, found.id) == ("json", text, identity)


def test_what_may_be_an_id_under_another_name_is_reported_and_not_written():
    found = propose(
        [b'{"at": {"sku": "a1"}, "slip": "x/y:%d", "lang": "en", "text": "one two %d"}' % (n, n)
         for n in range(30)]
    )  # fmt: skip
    assert (found.text, found.id, found.distinct) == ("/text", None, ("/slip",))
    assert "Different in each record: /slip (to take it: --id /slip)" in described("news", found)


def test_bytes_that_are_neither_json_nor_text_are_no_sure_proposal():
    for frame in (b"\x00\x00\x00\x00\x07", b"\x03\x00" + bytes(16)):
        framed = propose([frame + b"\xff\xfe"] * 3)
        assert (framed.format, framed.sure) == ("avro", False)
    assert not propose([b"\xff\xfe"] * 3).sure
    assert propose([b"[1, 2]", b"plain words"]).format == "text"


def test_broken_json_is_json_and_not_text():
    found = propose([b'{"text": "one two", }', b' {"text": "three'] * 3)
    assert found.format == "json"
    assert not found.sure


def test_words_that_yaml_reads_as_something_else_are_quoted(tmp_path):
    for topic in ("null", "1234", "-", "0x1", "true", "a.b"):
        file = tmp_path / "one.yaml"
        odd = '/the "text": a # b'
        file.write_text(StarterFile(topic=topic, text=odd, id=None).text_of_file())
        found = load_config([file], {}).input
        assert (found.topic, found.text, found.id) == (topic, (odd,), None)


def test_the_reference_is_printed_and_the_file_says_how(tmp_path, capsys):
    from tests.support.texts import ROOT

    assert cli.main(["init", "--reference"]) == 0
    assert capsys.readouterr().out == (ROOT / "config/reference.yaml").read_text()
    assert list(tmp_path.iterdir()) == []
    assert cli.main(["init"]) == 0
    assert "streamfilter init --reference" in (tmp_path / "streamfilter.yaml").read_text()


def test_the_file_to_start_from_is_what_init_writes():
    from tests.support.texts import ROOT

    again = "python -m streamfilter.config.starter > config/streamfilter.yaml"
    assert (ROOT / "config/streamfilter.yaml").read_text() == StarterFile().text_of_file(), again


def test_a_second_topic_of_a_directory_gets_a_file_and_an_index_of_its_own(tmp_path, capsys):
    assert cli.main(["init", "--topic", "news"]) == 0
    assert cli.main(["init", "--topic", "reviews"]) == 64
    assert "write streamfilter init … reviews.yaml, or overwrite" in capsys.readouterr().err
    assert cli.main(["init", "--topic", "reviews", "reviews.yaml"]) == 0
    first, second = (
        load_config([tmp_path / f"{name}.yaml"], {}) for name in ("streamfilter", "reviews")
    )
    assert first.index.path != second.index.path


def test_an_extra_that_the_settings_need_is_installed_before_they_are_checked(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "lxml.etree", None)
    assert cli.main(["init", "--topic", "pages", "--example", "web"]) == 0
    steps = capsys.readouterr().err.partition("next: ")[2].splitlines()
    assert steps[0] == "pip install 'streamfilter[html]'"
    assert [step.split()[:2] for step in steps[1:]] == [
        ["streamfilter", "check"],
        ["streamfilter", "run"],
    ]
