"""`boilerplate` writes a table of files or of a topic, and each verb uses it or refuses it."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.preflight.records import check_boilerplate
from streamfilter.similarity.text import boilerplate
from streamfilter.similarity.text.boilerplate import Sample, Table, read_table
from tests.boilerplate.pages import COPIES, Page, pages, written

pytestmark = pytest.mark.usefixtures("alone")

KEY = "similarity.normalise.boilerplate"
SAMPLE = pages()
BY_ID = dict(enumerate(SAMPLE))


@pytest.fixture
def sample(tmp_path: Path) -> str:
    return written(tmp_path / "pages.jsonl", [each.text for each in SAMPLE]).name


TABLES: list[bytes] = []
"""The table of the sample, when it has been made once."""


@pytest.fixture
def table(sample: str, capsys: pytest.CaptureFixture[str]) -> Path:
    if not TABLES:
        assert cli.main(["boilerplate", sample, "-o", "t.bin"]) == 0
        capsys.readouterr()
        TABLES.append(Path("t.bin").read_bytes())
    Path("t.bin").write_bytes(TABLES[0])
    return Path("t.bin")


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert cli.main([*arguments]) == code
    both = capsys.readouterr()
    return both.out if code == 0 else both.out + both.err


def matched(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[Page, Page]]:
    lines = said(capsys, "pairs", *arguments).splitlines()
    return [(BY_ID[int(a)], BY_ID[int(b)]) for a, b, _ in (line.split("\t") for line in lines)]


@pytest.mark.slow
def test_the_same_article_is_found_behind_any_footer_and_no_other(sample, table, capsys):
    """40 articles stand on two sites each, between 175 and 715 words that are not theirs."""
    before = matched(capsys, sample)
    after = matched(capsys, sample, "--set", f"{KEY}={table}")
    assert sum(a.article == b.article for a, b in before) < 3
    same = sum(a.article == b.article for a, b in after)
    others = sum(a.article != b.article for a, b in after)
    assert same >= 0.98 * COPIES
    assert others <= 0.03 * len(SAMPLE)
    low = ("--threshold", "0.5")
    equal = [a.article != b.article for a, b in matched(capsys, sample, *low)]
    assert sum(equal) > 500, "without a table, long footers make the articles of a site equal"
    assert len(matched(capsys, sample, *low, "--set", f"{KEY}={table}")) == COPIES


@pytest.mark.slow
def test_workers_read_the_table_themselves(sample, table, capsys):
    arguments = ("pairs", sample, "--set", f"{KEY}={table}")
    assert said(capsys, *arguments, "--workers", "2") == said(capsys, *arguments)


@pytest.mark.slow
def test_a_dry_run_shows_the_passages_and_the_pairs_and_writes_nothing(sample, capsys):
    out = said(capsys, "boilerplate", sample, "--dry-run")
    assert f"from 0.8 on without the table, {COPIES} with it, " in out
    footer = max((each.text.split("\n")[3] for each in SAMPLE), key=len)
    assert footer[:60] in out
    answer = json.loads(said(capsys, "boilerplate", sample, "--dry-run", "--json"))
    assert answer["pairs"]["after"] == COPIES
    assert answer["documents_left"] == {"all": 0, "enough": len(SAMPLE), "few": 0}
    assert [each.name for each in Path().iterdir()] == [sample]


@pytest.mark.slow
def test_compare_and_explain_show_what_does_not_count(sample, table, capsys, monkeypatch):
    on = ("--set", f"{KEY}={table}")
    menu, banner, article, footer = SAMPLE[0].text.split("\n")
    out = said(capsys, "explain", SAMPLE[0].text, f"{menu} {footer}", *on)
    assert footer[:60] in out
    assert "shingles do not count" in out
    only = json.loads(said(capsys, "explain", footer, footer.upper(), *on, "-o", "json"))
    assert only["verdict"] == "exact_duplicate"
    assert "all" in said(capsys, "explain", footer, article, *on)
    assert (
        json.loads(said(capsys, "explain", article, f"{banner} {article}", *on, "-o", "json"))[
            "jaccard"
        ]
        > 0.9
    )
    state = ("--state", "st")
    out = ("--unique", "u", "--duplicates", "d")
    assert cli.main(["filter", sample, *state, *out, *on]) == 0
    assert footer[:60] in said(capsys, "explain", *state, SAMPLE[0].text, *on)
    monkeypatch.setattr(boilerplate, "_TABLES", {})  # as in another process
    assert "set similarity.normalise.boilerplate" in said(
        capsys, "explain", *state, SAMPLE[0].text, code=78
    )
    assert "whole" in said(capsys, "check", "--index", *state), "stored columns need no table"


@pytest.mark.slow
def test_an_index_of_another_table_is_refused_with_the_ways_out(sample, table, capsys):
    out = ("--state", "st", "--unique", "u", "--duplicates", "d")
    assert cli.main(["filter", sample, *out, "--set", f"{KEY}={table}"]) == 0
    assert cli.main(["boilerplate", sample, "-o", "t.bin", "--at-least", "40"]) == 0
    refused = said(capsys, "filter", sample, *out, "--set", f"{KEY}={table}", code=78)
    assert "scheme.normalisation.boilerplate: it has" in refused
    assert "ways out" in refused
    assert "wanted is None" in said(capsys, "filter", sample, *out, code=78)


@pytest.mark.parametrize(
    ("content", "settings", "why"),
    [
        (None, [], "cannot read t.bin: No such file or directory"),
        (b"\0" * 100, [], "t.bin: it is no table of boilerplate"),
        ("cut", [], "t.bin: it is damaged or cut short"),
        ("table", ["similarity.normalise.casefold=false"], "similarity.normalise.casefold true, "),
        ("table", ["similarity.shingle.size=4"], "similarity.shingle.size 3, and the config"),
        ("table", ["similarity.shingle.kind=char"], "would empty the texts"),
        ("table", ["similarity.shingle.kind=stopword"], "already leave out menus"),
        ("table", ["input.format=fields", "input.fields={/a: words}"], "records are compared"),
        ("directory", [], "t.bin: it is no file"),
    ],
)
def test_a_table_that_cannot_be_used_is_a_mistake_of_the_configuration(
    content: Any, settings: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = TABLE.to_bytes()
    if content == "directory":
        Path("t.bin").mkdir()
    elif content is not None:
        data = (
            {"cut": whole[:-9], "table": whole}.get(content)
            if isinstance(content, str)
            else content
        )
        Path("t.bin").write_bytes(data)
    options = [each for one in (f"{KEY}=t.bin", *settings) for each in ("--set", one)]
    for verb in (["check"], ["pairs", "x.jsonl"]):
        refused = said(capsys, *verb, *options, code=78)
        assert f"{KEY}: " in refused
        assert why in refused
        assert "cure: " in refused


TABLE = Table.of(
    [(b"all", b"rights", b"reserved")],
    load_config((), {}).scheme().normalisation,
    load_config((), {}).scheme().shingling,
    Sample(100, 10, 0, (10, 20, 70)),
)


def test_check_warns_of_a_table_that_empties_its_sample(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.bin").write_bytes(TABLE.to_bytes())
    out = said(capsys, "check", "--set", f"{KEY}=t.bin")
    assert f"warning: {KEY}: the table leaves 70% of the documents" in out


def test_check_warns_if_the_stream_has_other_footers_now(table: Path) -> None:
    config = load_config((), {}, [f"{KEY}={table}"])
    assert check_boilerplate(config, [each.text for each in SAMPLE]) == []
    (drifted,) = check_boilerplate(config, [each.text for each in pages(seed=8)])
    assert drifted.warning
    assert "100% keep all (then 0%), 0% keep enough (then 100%)" in drifted.got
    few = [each.text.split("\n")[3] for each in SAMPLE]
    assert "100% keep few" in check_boilerplate(config, few)[0].got
    assert check_boilerplate(config, few[:9]) == [], "too few to say"


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["pages.jsonl"], 64, "-o PATH, or use --dry-run"),
        (["-o", "t"], 64, "name the FILEs of a sample, or --topic T"),
        (["pages.jsonl", "-o", "-"], 64, "name a file"),
        (["pages.jsonl", "--dry-run", "--share", "nan"], 64, "nan is no number"),
        (["pages.jsonl", "-o", "pages.jsonl"], 64, "given twice"),
        (["pages.jsonl", "-o", "t", "--set", "similarity.shingle.kind=char"], 78, "would empty"),
        (["pages.jsonl", "-o", "t", "--text", "/no"], 65, "records are broken"),
        (["pages.jsonl", "-o", "t", "--limit", "5"], 65, "no shingle stands in 10 documents"),
    ],
)
def test_a_mistake_writes_nothing_and_names_the_cure(sample, arguments, code, why, capsys):
    assert why in said(capsys, "boilerplate", *arguments, code=code)
    assert [each.name for each in Path().iterdir()] == [sample]


def test_a_table_that_the_configuration_names_need_not_be_there_yet(sample: str) -> None:
    Path("c.yaml").write_text("similarity: {normalise: {boilerplate: t.bin}}\n")
    assert cli.main(["boilerplate", sample, "-c", "c.yaml", "-o", "t.bin"]) == 0
    assert cli.main(["check", "-c", "c.yaml"]) == 0


def test_an_interruption_leaves_the_old_table(sample: str, table: Path) -> None:
    before = table.read_bytes()
    read, write = os.pipe()
    command = ("boilerplate", f"/dev/fd/{read}", "-o", "t.bin")
    # As an interactive shell starts it: a shell's background jobs ignore SIGINT.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from streamfilter.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    child = subprocess.Popen([sys.executable, "-c", code, *command], pass_fds=[read])
    os.close(read)
    with suppress(BrokenPipeError), os.fdopen(write, "wb") as pipe:
        pipe.write(Path(sample).read_bytes())
        pipe.flush()  # the pipe holds less than that, so its reader has begun
        child.send_signal(signal.SIGINT)
        while child.poll() is None:
            pipe.write(b'{"id": "x", "text": "one more"}\n')
            pipe.flush()
    assert child.wait(60) == 130
    assert table.read_bytes() == before
    assert sorted(each.name for each in Path().iterdir()) == [sample, "t.bin"]


@pytest.mark.slow
def test_a_topic_gives_the_table_that_its_file_gives_and_no_group_is_joined(table, capsys):
    with EmbeddedBroker() as broker:
        broker.create_topics({"pages": 3})
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("pages", b"{", partition=0)
        for number, each in enumerate(SAMPLE):
            value = json.dumps({"id": str(number), "text": each.text}).encode()
            producer.produce("pages", value, partition=number % 3)
        producer.flush(30)
        settings = ("--set", f"kafka.common.bootstrap.servers={broker.bootstrap}")
        out = said(capsys, "boilerplate", "--topic", "pages", "-o", "of-topic.bin", *settings)
        assert "1 record not readable" in out
        assert read_table(Path("of-topic.bin")).digest == read_table(table).digest
        few = ("--topic", "pages", "--dry-run", "--json", "--limit", "120", *settings)
        limited = json.loads(said(capsys, "boilerplate", *few))
        assert limited["documents"] == 120
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert admin.list_consumer_groups().result(10).valid == []
        assert "no topic" in said(
            capsys, "boilerplate", "--topic", "page", "--dry-run", *settings, code=78
        )
