"""The checks of the disk: the state directory, the index in it, and the files with secrets.

They change nothing: no directory is created, no database opened, no lock taken.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from streamfilter.config.configuration import Config
from streamfilter.index.directory.lock_and_marker import MARKER_NAME
from streamfilter.index.directory.opening import read_identity, refuse_unfit
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import IndexFault
from streamfilter.monitoring.web.token_file import TokenFile
from streamfilter.similarity.scheme import Scheme
from streamfilter.stops import ConfigError, Problem

KEY = "index.path"


def check_disk(config: Config, scheme: Scheme | None) -> list[Problem]:
    """Return what is wrong with the paths; an index there must have this *scheme*; None: any."""
    secrets: list[Problem] = []
    seed = None
    try:
        query_tokens(config)
        seed = seed_at(config.index.seed_file)
    except ConfigError as error:
        secrets += error.problems
    problems = list(_directory(config.index.path))
    if not problems and not secrets and os.path.isdir(config.index.path):
        problems += _indexes(config, scheme, seed)
    return secrets + problems


def query_tokens(config: Config) -> TokenFile | None:
    """Return the token file of `http.query`, None without; raise `ConfigError`: it is of no use."""
    path = config.http.query_token_file
    if not config.http.query or path is None:
        return None
    (tokens := TokenFile(path)).read()
    return tokens


def refuse_link(path: Path) -> None:
    """Stop if *path* is a link: with an index for each partition, `run` would follow it."""
    if os.path.islink(path):
        raise ConfigError([_link(path)])


def _link(path: Path) -> Problem:
    return Problem(KEY, f"{path} is a symbolic link", "name the directory itself")


def _directory(path: Path) -> Iterator[Problem]:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # a check of the directories above it says more
    except OSError as error:
        yield Problem(KEY, f"{path}: {error.strerror}", "name another directory")
        return
    # These functions of os.path treat a path that we may not look at as absent.
    if os.path.islink(path):
        yield _link(path)
    elif not os.path.lexists(path):
        above = next(parent for parent in path.absolute().parents if os.path.exists(parent))
        if not (os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK)):
            cure = "make that directory writable, or name another"
            yield Problem(KEY, f"{path} cannot be created in {above}", cure)
    elif not os.path.isdir(path):
        yield Problem(KEY, f"{path} is not a directory", "name a directory")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield Problem(KEY, f"{path} is not readable and writable", "change its owner or mode")


def _indexes(config: Config, scheme: Scheme | None, seed: bytes | None) -> Iterator[Problem]:
    """Yield the indexes of *config*, or one level below (one for each task), that do not fit."""
    path, cap = config.index.path, config.index.bucket_cap
    below = sorted(each for each in path.iterdir() if each.is_dir() and not each.is_symlink())
    for place in [path, *below]:
        try:
            # The directory above the tasks' has no marker.
            if not (place / MARKER_NAME).exists():
                continue
            if scheme is None:
                read_identity(place, seed=seed)
            else:
                refuse_unfit(place, scheme, seed=seed, bucket_cap=cap, ids=config.finds_ids)
        except IndexFault as fault:
            yield Problem(KEY, str(fault), "")  # the fault names its own ways out
