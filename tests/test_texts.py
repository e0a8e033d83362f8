"""The texts are part of the product: their commands, links and tables are held to the code."""

import re
import runpy
import sys
import tomllib

import click
import pytest

from deploy.metrics_reference import table
from streamfilter import cli
from tests.support.cases import cases
from tests.support.texts import ROOT, TEXTS, section

README_LINES_MAX = 220
LINKS = sorted(
    (home, target)
    for home, text in TEXTS.items()
    for target in set(re.findall(r"\]\(([^)\s]+)\)", text))
    if not re.match(r"[a-z]+:", target)
)


def anchors(text: str) -> set[str]:
    """Return what a link into *text* may name: its headings, as a page spells them, and anchors."""
    headings = (line.lstrip("#").strip().lower() for line in re.findall(r"^#+ .*$", text, re.M))
    slugs = {re.sub(r"[^\w\- ]", "", heading).strip(" ").replace(" ", "-") for heading in headings}
    slugs |= {slug + "-" for slug in slugs}  # "when …" leaves a space behind
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def test_every_link_leads_somewhere():
    for home, target in LINKS:
        path, _, anchor = target.partition("#")
        file = ((ROOT / home).parent / path).resolve() if path else ROOT / home
        assert file.exists(), (home, target)
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), (home, target)


@pytest.mark.parametrize("title", ["Try it", "Test it"])
def test_the_first_code_block_of_a_command_section_is_one_line(title):
    block = re.search(r"^```\n(.*?)^```", section(title), re.M | re.S)
    assert block
    assert len(block.group(1).splitlines()) == 1


def test_the_readme_is_read_in_one_sitting():
    assert len(TEXTS["README.md"].splitlines()) <= README_LINES_MAX


def test_the_table_of_metrics_is_the_catalogue():
    assert table() in section("Metrics")


def test_the_rooms_that_are_reported_of_are_those_that_are_there():
    told = set(
        re.findall(
            r"`(\w+)/?`",
            "".join(
                line.split("|")[1]
                for line in section("Rooms").splitlines()
                if line.startswith("| `")
            ),
        )
    )
    package = ROOT / "streamfilter"
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    files = {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert told == rooms | files


def test_nothing_is_left_to_be_filled_in():
    for home, text in TEXTS.items():
        assert not re.search("@@|TODO", text), home


OPTIONS: dict[str, set[str]] = {}
for found in re.findall(r"`python -m (tests[\w.]*)([^`\n]* --[^`\n]*)`", "".join(TEXTS.values())):
    OPTIONS.setdefault(found[0], set()).update(re.findall(r"--[\w-]+", found[1]))


@pytest.mark.parametrize("module", sorted(OPTIONS))
def test_a_program_of_the_tests_knows_the_options_that_a_text_gives_it(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert {option for option in OPTIONS[module] if option not in printed} == set(), printed


def test_a_command_that_a_text_or_a_cure_names_is_a_verb():
    sources = [path.read_text() for path in (ROOT / "streamfilter").rglob("*.py")]
    named = re.findall(
        r"`streamfilter ([a-z]+)(?= -|`| [A-Z@])", "".join([*TEXTS.values(), *sources])
    )
    assert set(named) - set(cli.group.list_commands(click.Context(cli.group))) == set()
    assert {"run", "check", "restore"} < set(named)


@cases(
    ("path", "word"),
    sorted(set(re.findall(r"`pytest (tests[\w/.]*)(?: -k (\w+))?", "".join(TEXTS.values())))),
)
def test_what_a_text_runs_with_pytest_is_there(path, word):
    assert (ROOT / path).exists()
    assert not word or re.search(rf"def test_\w*{word}", (ROOT / path).read_text())


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {(name, "") for name in map(package, project["dependencies"])}
    wanted |= {(package(each), extra) for extra in extras for each in extras[extra]}
    rows = [line.split("|") for line in section("Dependencies").splitlines()[3:] if line]
    found = set()
    for _, names, why, _ in rows:
        assert len(why.split()) > 1, names
        packages, _, inside = names.strip().partition(" (")
        extras_of = re.findall(r"`(\w+)`", inside) or [""]
        found |= {(name, extra) for name in packages.split(", ") for extra in extras_of}
    assert found == wanted


def package(requirement: str) -> str:
    return re.split(r"[><=;! ]", requirement)[0]
