"""The paragraphs of "How to add something" are true: each is done in a copy of the tree.

Only what a paragraph names is edited there, and everything it names is needed. Then the tests of
the house and its texts pass in the copy.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cases import cases
from tests.support.texts import ROOT, section

LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "*.egg-info", ".*_cache", ".hypothesis", "build")
HELD_BY = (
    "tests/test_architecture.py",
    "tests/test_texts.py",
    "tests/config/test_formats.py",
    "tests/config/test_reference.py",
    "tests/config/test_schema.py",
    "tests/process/test_cli.py::test_the_help_of_a_verb_ends_with_an_example",
)
VERB = '''\
"""``label``: what this filter is called."""

from pathlib import Path

import click

from streamfilter.commands import options
from streamfilter.process import standard

EXAMPLES = """\\b
Example:
  streamfilter label --config streamfilter.yaml
"""


@click.command(epilog=EXAMPLES)
@options.config_options
def command(files: tuple[Path, ...], overrides: tuple[str, ...]) -> None:
    """Print the label."""
    standard.say(options.load(files, overrides).batch.label)
'''

FORMAT = '''\
"""Format ``pairs``: names and values, as the forms of a page send them."""

from __future__ import annotations

from urllib.parse import parse_qsl

from streamfilter.documents.decoding import Decoder, Wanted
from streamfilter.documents.fields.strict_json import decode_utf8


def decoder(wanted: Wanted) -> Decoder:
    """Return what reads pairs."""
    return lambda value, headers: dict(parse_qsl(decode_utf8(value)))
'''

PAGE = """
### `pairs`

```yaml
input:
  format: pairs                           # id=a7&text=…
```

Names and values, as the forms of a page send them.
"""

DICE = """

def _dice(_: FieldRules, ours: Contents, rows: I64, theirs: Contents, at: I64) -> Compared:
    found = jaccard(ours.samples, rows, theirs.samples, at)
    dice = 2 * found.similarity / (1 + found.similarity)
    return Compared(dice, found.whole, found.union)
"""

LARGE_SETTING = """\
    too_large: Topic | None = "documents.too-large"
    \"""Topic of records that are too large.\"""
"""
LARGE_LETTERS = """\
        if code is ErrorCode.TOO_LARGE:
            return self.too_large
"""


@dataclass(frozen=True, slots=True)
class Edit:
    """*text*, put behind *anchor* in a file; the whole of a new file if there is no anchor."""

    path: str
    text: str
    anchor: str = ""

    def make(self, tree: Path) -> None:
        file = tree / self.path
        if not self.anchor:
            file.write_text(self.text)
            return
        before, after = file.read_text().split(self.anchor)  # it stands there once
        file.write_text(before + self.anchor + self.text + after)


@dataclass(frozen=True, slots=True)
class Printed:
    """A text, or a part of one, that a module prints anew once all edits are made."""

    path: str
    module: str

    def make(self, tree: Path) -> None:
        file, was = tree / self.path, run(ROOT, "-m", self.module)
        text = file.read_text()
        assert was in text
        file.write_text(text.replace(was, run(tree, "-m", self.module)))


ADDITIONS: dict[str, list[Edit | Printed]] = {
    "A metric": [
        Edit(
            "streamfilter/monitoring/catalogue.py",
            '    _counter("batches_total", "Batches that were committed."),\n',
            anchor="CATALOGUE: tuple[Metric, ...] = (\n",
        ),
        Edit(
            "streamfilter/monitoring/metrics.py",
            '            series.add("batches_total", 1)\n',
            anchor='            series.add("records_consumed_total", records)\n',
        ),
        Printed("deploy/README.md", "deploy.metrics_reference"),
    ],
    "A header": [
        Edit(
            "streamfilter/matching/verdict/evidence_headers.py",
            '        ("__streamfilter.source.bytes", b"%d" % len(record.value or b"")),\n',
            anchor='        ("__streamfilter.source.offset", b"%d" % source.offset),\n',
        )
    ],
    "A setting": [
        Edit(
            "streamfilter/config/settings/process.py",
            '    label: str = "nameless"\n    """What it is called."""\n\n',
            anchor='Whatever bound is reached first closes it."""\n\n',
        ),
        Printed("config/reference.yaml", "streamfilter.config.reference"),
        Printed("config/schemas/configuration.json", "streamfilter.config.schema"),
    ],
    "A format": [
        Edit("streamfilter/config/settings/input.py", '"pairs", ', anchor="    format: Literal["),
        Edit("streamfilter/documents/formats/pairs.py", FORMAT),
        Edit("config/README.md", PAGE, anchor="no registry is asked, none is named.\n"),
        Edit(
            "tests/config/test_formats.py",
            '    "pairs": (b"id=a7&text=b", Document("a7", "b")),\n',
            anchor="READ = {\n",
        ),
        Printed("config/reference.yaml", "streamfilter.config.reference"),
        Printed("config/schemas/configuration.json", "streamfilter.config.schema"),
    ],
    "A method": [
        Edit("streamfilter/config/settings/sections.py", '"dice", ', anchor="    method: Literal["),
        Edit(
            "streamfilter/matching/verdict/comparers.py",
            DICE,
            anchor="    return jaccard(ours.samples, rows, theirs.samples, at)\n",
        ),
        Edit(
            "streamfilter/matching/verdict/comparers.py",
            '    "dice": Comparer(_dice, deviations=inf, sized=False),\n',
            anchor="COMPARERS = {\n",
        ),
        Printed("config/reference.yaml", "streamfilter.config.reference"),
        Printed("config/schemas/configuration.json", "streamfilter.config.schema"),
    ],
    "A place for dead letters": [
        Edit(
            "streamfilter/config/settings/sections.py",
            LARGE_SETTING,
            anchor='None is ever\n    dropped."""\n',
        ),
        Edit(
            "streamfilter/config/settings/sections.py",
            '            "output.too_large": self.too_large,\n',
            anchor='            "output.dead_letter": self.dead_letter,\n',
        ),
        Edit(
            "streamfilter/engine/messages/forwarding.py",
            "    too_large: str | None = None\n",
            anchor='of the changelog, in bytes; None: larger than any document."""\n',
        ),
        Edit(
            "streamfilter/engine/messages/forwarding.py",
            LARGE_LETTERS,
            anchor='letter with this *code*; None: there is none."""\n',
        ),
        Edit(
            "streamfilter/kafka/service_start.py",
            "        too_large=output.too_large,\n",
            anchor="        dead_letter=output.dead_letter,\n",
        ),
        Printed("config/reference.yaml", "streamfilter.config.reference"),
        Printed("config/schemas/configuration.json", "streamfilter.config.schema"),
    ],
    "A verb": [
        Edit("streamfilter/commands/label.py", VERB),
        Edit(
            "streamfilter/cli.py",
            '        "label": "Print what this filter is called.",\n',
            anchor='    "Run": {\n',
        ),
    ],
}

HOW = "How to add something"
SEEN = {
    "A metric": """
from streamfilter.model import Verdict
from streamfilter.monitoring.metrics import BatchReport, Metrics
metrics = Metrics()
metrics.batch(BatchReport(verdicts={Verdict.UNIQUE: 3}))
assert b"streamfilter_batches_total 1.0" in metrics.expose()[1]
""",
    "A header": """
from streamfilter.engine.messages.forwarding import Destinations, Forwarder, Style
from streamfilter.engine.ports import Layout
from streamfilter.model import Decision, Record, Source, Verdict
names = ("unique", "duplicates", "dead")
places = Destinations(*names, dict.fromkeys(names, 10_000))
layout = Layout(1, dict.fromkeys(names, 1))
style = Style(shadow=False, duplicates_mode="annotate", scheme="s", threshold=0.8)
record = Record(Source("in", 0, 0), b"key", b"four", (), 0)
out = Forwarder(places, style, layout).output(record, Decision(Verdict.EXACT_DUPLICATE), "d")
assert ("__streamfilter.source.bytes", b"4") in out.headers
""",
    "A setting": """
from streamfilter.config.loading import load_config
assert load_config((), {}).batch.label == "nameless"
assert load_config((), {"STREAMFILTER_BATCH__LABEL": "news"}).batch.label == "news"
""",
    "A format": """
from streamfilter.assembly import reader_for
from streamfilter.config.loading import load_config
from streamfilter.model import Document, Record, Source
reader = reader_for(load_config((), {}, overrides=("input.format=pairs",)))
found = reader.read(Record(Source("in", 0, 7), None, b"text=some+news&id=7", (), 0))
assert found == Document("7", "some news"), found
""",
    "A method": """
from streamfilter.assembly import policy_for
from streamfilter.config.loading import load_config
from streamfilter.matching.explanation import one_after_the_other
from streamfilter.similarity.sketch import Sketcher
config = load_config((), {}, overrides=("verify.method=dice", "similarity.shingle.size=1"))
texts = ("a b c d e f g h", "a b c d e f g i")  # 7 of 9 words: .78, and 14 of 16: .875
pair = one_after_the_other(
    *texts, Sketcher(config.scheme(), seed=bytes(16)), policy=policy_for(config), bucket_cap=8
)
assert pair.explanation.decision.method == "dice", pair
why = pair.beside.why
assert why == "they share a key; similarity 0.8750 reaches the threshold 0.8", why
""",
    "A place for dead letters": """
from streamfilter.config.loading import load_config, read_config
from streamfilter.engine.messages.forwarding import Destinations, Forwarder, Style
from streamfilter.kafka.brokers.topics import Topic, layout_of, problems_of
from streamfilter.kafka.service_start import _destinations, needed
from streamfilter.model import ErrorCode, Malformed, Record, Source
config = load_config((), {}, overrides=("input.topic=news",))
assert config.output.too_large == "news.too-large"
assert "WRITE on topic news.too-large" in needed(config)
assert config.output.dead_letters == ["news.dead-letter", "news.too-large"]  # `evaluate` reads both
(problem,) = read_config((), {}, overrides=("output.too_large=documents",)).problems
assert problem.key == "output.too_large"
found = {name: Topic(1, {}) for name in config.topics.values()}
places = _destinations(config, found)
forwarder = Forwarder(places, Style(False, "annotate", "s", 0.8), layout_of(config, found))
record = Record(Source("in", 0, 0), b"key", b"four", (), 0)
topics = [forwarder.output(record, Malformed(c, "")).topic for c in ErrorCode]
assert set(topics) == {"news.dead-letter", "news.too-large"}
assert places.role_of("news.too-large") == "dead_letter"
del found["news.too-large"]
(problem,) = problems_of(config, found)
assert problem.key == "output.too_large"
""",
    "A verb": """
from streamfilter import cli
assert cli.main(["--help"]) == cli.main(["label", "--help"]) == 0
assert cli.main(["label", "--set", "batch.label=news"]) == 0
""",
}
"""What is there then, as a script that ends well."""


def run(tree: Path, *arguments: str) -> str:
    """Return what Python prints in *tree*, which is where it finds `streamfilter` and `tests`."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tree in which everything was added as the paragraphs say."""
    tree = tmp_path_factory.mktemp("copy") / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    made = [each for steps in ADDITIONS.values() for each in steps]
    for edit in (each for each in made if isinstance(each, Edit)):
        edit.make(tree)
    for printed in {each for each in made if isinstance(each, Printed)}:
        printed.make(tree)
    return tree


def paragraph(title: str) -> str:
    found = re.search(rf"^- \*\*{title}\*\*: (.*?)(?=^- \*\*|^$)", section(HOW), re.M | re.S)
    assert found, f"no paragraph about {title}"
    return found[1]


@cases("title", ADDITIONS)
def test_a_paragraph_names_all_the_files_that_are_touched_and_no_others(title):
    named = set(re.findall(r"`([\w/]+\.\w+)`|\]\(\.\./([\w/.]+)", paragraph(title)))
    assert {a or b for a, b in named} == {
        each.path.replace("label.py", "VERB.py").replace("pairs.py", "FORMAT.py")
        for each in ADDITIONS[title]
    }


@pytest.mark.slow
def test_what_was_added_is_there(copy):
    assert SEEN.keys() == ADDITIONS.keys()
    run(copy, "-c", "".join(SEEN.values()))  # in one process: to start it costs more than they do


@pytest.mark.slow
def test_nothing_else_was_needed(copy):
    sources = [
        each.path for edits in ADDITIONS.values() for each in edits if each.path[-2:] == "py"
    ]
    run(copy, "-m", "ruff", "check", *sources)
    run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *HELD_BY)
