"""How the tests' JVMs run: for minutes, and with Kafka's classes as another one has read them.

Each broker loads and checks the same thousands of classes, two fifths of its start. The first
session on a machine records them while a broker starts and ends, and leaves them beside the jars;
those of another Java or of other jars are recorded anew. Nothing needs them but patience.
"""

import contextlib
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deploy.local.jars import BrokerUnavailableError, cache_directory, find_java, kafka_jars

VARIABLE = "JDK_JAVA_OPTIONS"
# The second compiler would take half of the processor time. A collector for many processors
# would spend half a second on its threads.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def archive() -> Path:
    """Return where the classes are, if they have been recorded."""
    return cache_directory() / "kafka-classes.jsa"


def options() -> str:
    """Return the options of each JVM; one that runs something else does without, in silence."""
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={archive()} -Xlog:cds=off -Xlog:cds+dynamic=off"


def record() -> None:
    """Record them, unless they are there, another process is at it, or no broker can be had."""
    if os.environ.get(VARIABLE) != options():
        return  # other settings of Java have a reason
    with contextlib.suppress(BrokerUnavailableError, OSError, subprocess.SubprocessError):
        if fit(archive()):
            return
        with _alone() as alone:
            if alone:
                _record()


def fit(path: Path) -> bool:
    """Return whether the Java of today takes them for the jars of today."""
    command = [find_java(), "-Xshare:on", f"-XX:SharedArchiveFile={path}"]
    command += ["-cp", f"{kafka_jars()}/*", "-version"]
    return path.exists() and subprocess.run(command, capture_output=True).returncode == 0


def _record() -> None:
    from deploy.local.real import RealKafka  # late: see tests/conftest.py

    told = os.environ.get(VARIABLE, "")
    with tempfile.TemporaryDirectory(dir=cache_directory(), prefix=".recording-") as working:
        path = Path(working, "classes")
        os.environ[VARIABLE] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={path}"
        try:
            with RealKafka() as kafka:
                kafka.nodes[0].stop()
        finally:
            os.environ[VARIABLE] = told
        if fit(path):
            path.replace(archive())


@contextlib.contextmanager
def _alone() -> Iterator[bool]:
    with (cache_directory() / ".recording").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
