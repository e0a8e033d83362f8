"""Options of commands that read files: short names of the most used settings."""

import json
from collections.abc import Sequence
from typing import Any

import click

from streamfilter.commands.options import added, config_options, load, once
from streamfilter.config.checks import announced
from streamfilter.config.configuration import Config
from streamfilter.config.loading import literal
from streamfilter.files.inputs import for_files
from streamfilter.index.directory.seed_file import numbered, read_seed
from streamfilter.process import standard

SEED_MAX = 2**64 - 1

LINES_ARE = ("json", "jsonl")  # other names of ``lines``: a JSON object a line

file_options = added(
    click.option("--format", "file_format",
                 type=click.Choice([*LINES_ARE, "lines", "csv", "avro", "parquet"]),
                 help="Format of the files, if their names do not show it (.csv, .avro, "
                      ".parquet). json, jsonl and lines are the same: a record a line."),
    click.option("--text", multiple=True, metavar="POINTER",
                 help="JSON Pointer to the text [/text]. Give it again to join several "
                      "fields."),
    click.option("--id", "id_", multiple=True, callback=once, metavar="POINTER",
                 help="JSON Pointer to the id [/id]. none: the position is the id."),
)  # fmt: skip
"""Options for the format of a file's records, and for text and id; see `overrides_of_files`."""

similarity_options = added(
    file_options,
    click.option("--threshold", type=float, metavar="J",
                 help="Similarity that makes a duplicate [0.8]."),
    click.option("--shingle", metavar="KIND:SIZE",
                 help="word:3 (default); stopword:2 for pages with adverts and menus; char:3 to "
                      "char:5 for short texts and languages without spaces."),
    click.option("--seed", type=click.IntRange(0, SEED_MAX), metavar="N",
                 help="Seed of the hashes [0]. The same files and seed give the same answer. If "
                      "an attacker may choose the texts, keep the seed secret: --set "
                      "index.seed_file=PATH."),
    click.option("--workers", metavar="auto|N",
                 help="Further processes that sign texts [0]. The outputs are the same for any "
                      "number."),
    config_options,
)  # fmt: skip
"""Options for the settings of the similarity; see `config_of` and `seed_of`."""


def config_of(given: dict[str, Any], inputs: Sequence[str] | None) -> Config:
    """Return the configuration of the options, for the files *inputs*; or raise `Stop`.

    The short names win over ``--set``.
    """
    config = load(given["files"], (*given["overrides"], *_overrides(given)))
    for warning in announced(config):
        standard.say(str(warning))
    return config if inputs is None else for_files(config, inputs)


def seed_of(given: dict[str, Any], config: Config) -> bytes:
    """Return the seed of a temporary index: from a number, from a file, or a constant."""
    if given["seed"] is None and config.index.seed_file:
        return read_seed(config.index.seed_file)
    return numbered(given["seed"] or 0)


def overrides_of_files(given: dict[str, Any]) -> list[str]:
    """Return what `file_options` set."""
    overrides = []
    if given["file_format"] is not None:
        named = "lines" if given["file_format"] in LINES_ARE else given["file_format"]
        overrides.append(f"input.file_format={named}")
    if given["text"]:
        texts = [literal(each) for each in given["text"]]
        overrides.append(f"input.text={texts[0] if len(texts) == 1 else json.dumps(texts)}")
    if given["id_"] is not None:
        overrides.append(f"input.id={'null' if given['id_'] == 'none' else literal(given['id_'])}")
    return overrides


def _overrides(given: dict[str, Any]) -> list[str]:
    overrides = overrides_of_files(given)
    if given["threshold"] is not None:
        overrides.append(f"similarity.threshold={given['threshold']}")
    if given["workers"] is not None:
        overrides.append(f"batch.workers={given['workers']}")
    if given["shingle"] is not None:
        kind, colon, size = given["shingle"].partition(":")
        if not colon:
            raise click.UsageError(
                f"--shingle {given['shingle']!r} is not KIND:SIZE; write it like word:3 or char:5"
            )
        overrides += [f"similarity.shingle.kind={kind}", f"similarity.shingle.size={size}"]
    return overrides
