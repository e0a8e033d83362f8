"""The kernel equals numpy to the bit, refuses what cannot be, and no start depends on it."""

import ctypes
import fcntl
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamfilter.similarity import minhash
from streamfilter.similarity.hashing import VECTOR_BYTES, WORD
from streamfilter.similarity.kernel import calls, choice, library
from streamfilter.similarity.kernel.choice import AUTO, OFF, chosen
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.text import code_points, folding
from tests.similarity.hostile import SEED, both, filters, random_case
from tests.support.cases import over

SOURCE = library.SOURCE.read_text()
PLAIN = Scheme(16, 6)


@pytest.fixture(scope="module", autouse=True)
def native() -> calls.Kernel:
    with chosen(AUTO) as found:
        if found.kernel is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(found.why)
        return found.kernel


@pytest.mark.slow
@over(range(60))
def test_any_texts_have_the_same_sketches_under_any_scheme(number):
    scheme, texts, values = random_case(random.Random(number))
    one, other = both(scheme, texts, values)
    assert one == other


@over(range(20))
def test_a_filter_has_the_same_words_and_answers(number):
    one, other = filters(random.Random(number))
    assert one == other


LARGE = {
    "one word": "w" * 10_000_000,
    "one letter a word": "a " * 500_000,
    "marks": "e" + "\u0301\u0323" * 500_000,
    "ten megabytes": "Été 中文 سلام ab, " * 400_000,
    "white space": " \t\u3000" * 300_000,
    "what grows": "\ufdfa" * 100_000,
    "nothing but NUL": "\0" * 100_000,
    "surrogates": "\ud800\udc00 \udfff" * 50_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_huge_text_has_the_same_sketch(name):
    one, other = both(PLAIN, ["a text before it", LARGE[name], "", "another behind it"], ())
    assert one == other


CALLS = ("ascii", "fold", "encode", "characters", "hash", "runs", "sign", "samples")


@pytest.mark.parametrize("call", CALLS)
def test_numpy_goes_on_where_the_kernel_refuses(call, monkeypatch):
    """Whichever function it is: the columns before and behind it may be the kernel's."""
    asked = []

    def refused(*_: object, **__: object) -> object:
        asked.append(call)
        return -1 if call == "fold" else None

    monkeypatch.setattr(calls.Kernel, call, refused)
    for kind in ("word", "char"):
        scheme = Scheme(16, 6, shingling=Shingling(kind, 3))
        one, other = both(scheme, ["plain ASCII text of words", "Été 中文 e\u0301\u0323 سلام"], ())
        assert one == other
    assert asked


def test_columns_that_cannot_be_are_refused(native):
    """Nothing outside of a column is read or written, whatever stands in it."""
    flat = np.array([1, 4], np.int64)
    words, classes = np.arange(3, dtype=np.uint64), code_points.classes()
    for bad in ([0, 4], [1, 5], [1, 3], [1, 1], [2, 4], [1, 9, 4], [1, -5, 4], [1]):
        bounds = np.array(bad, np.int64)
        assert native.ascii(b"\0ab\0", bounds, bytes(256), classes, collapse=True) is None
        points = np.zeros(4, np.uint32)
        assert native.fold(points, bounds, np.zeros(0x110000, np.uint32)) == -1
        several, lengths = np.zeros((0, 18), np.uint32), np.zeros(0, np.int64)
        assert native.encode(points, bounds, several, lengths, classes, collapse=True) is None
        assert native.characters(b"\0ab\0" + bytes(8), bounds, 2) is None
    for start, size in ((-1, 2), (0, -1), (4, 9), (2**62, 8), (0, 2**62)):
        span = np.array([start], np.int64), np.array([size], np.int64)
        keys = np.zeros((33, 2), np.uint64)
        assert native.hash(b"abcd" + bytes(8), *span, keys, keys, keys) is None
    for bad in ([1, 3], [0, 4], [0, 2, 1, 3], [0, -1, 3]):
        starts = np.array(bad, np.int64)
        assert native.runs(words, starts, 2, np.zeros((2, 2, 2), np.uint64), words) is None
        assert native.sign(words, starts, np.ones(15, np.uint32), words, words) is None
        assert native.samples(words, starts, 10) is None
    assert native.passed([(words[:3], 0, 1)], words) is None
    assert not native.add((words[:3], 0, 1), words)
    assert native.runs(words, flat - 1, 3, np.zeros((2, 2, 2), np.uint64), words) is None


@pytest.mark.parametrize("value", [0x110000, 0x110001, 1 << 22, (1 << 22) + 7, 1 << 23, 2**32 - 1])
def test_a_value_that_stands_for_nothing_is_refused(native, value):
    values, bounds = np.array([0, 65, value, 0], np.uint32), np.array([1, 4], np.int64)
    rows = np.full((1, 18), 0x110000, np.uint32), np.array([3], np.int64)
    assert native.encode(values, bounds, *rows, code_points.classes(), collapse=True) is None
    assert native.fold(np.array([0, 0x110000, 0, 0], np.uint32), bounds, values) == -1


def test_source_and_python_have_the_same_numbers():
    """C cannot import them."""
    written = dict(re.findall(r"(\w+) = (0x\w+|\d+(?: << \d+)?)(?=[,} ;])", SOURCE))
    python = {
        "SPECIAL": folding.SPECIAL, "MARKED": folding.MARK, "SEVERAL": folding.SEVERAL,
        "LETTER": code_points.LETTER, "UNSPACED": code_points.UNSPACED, "MARK": code_points.MARK,
        "SPACE": folding.SPACE, "WORD": WORD, "VECTOR_BYTES": VECTOR_BYTES,
        "ROUNDS": minhash.ROUNDS, "ROUND_SHIFT": minhash.ROUND_SHIFT,
        "VALUE_BITS": minhash.VALUE_BITS, "REPEATING": minhash.REPEATING,
    }  # fmt: skip
    assert {name: eval(written[name]) for name in python} == python
    assert (folding.NOTHING, folding.CONTEXT, folding.UNKNOWN) == (
        folding.SPECIAL, folding.SPECIAL + 1, folding.SPECIAL + 2,
    )  # fmt: skip
    assert calls.SPARE_BYTES == WORD
    found = {
        name: "".join("p" if "*" in each else "i" for each in arguments.split(","))
        for name, arguments in re.findall(r"EXPORT i64 sf_(\w+)\(([^)]*)\)", SOURCE)
    }
    assert found == calls.ARGUMENTS


def test_the_source_is_short():
    assert len(SOURCE.splitlines()) <= 400
    assert not re.search(r"\b(malloc|calloc|realloc|alloca)\b", SOURCE)


# --- the library ---


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the library is compiled to, and not optimised: an empty folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    quickly = tuple(each for each in library.FLAGS if each != "-O3")
    monkeypatch.setattr(library.compile_to, "__defaults__", (quickly,))
    choice._found.cache_clear()
    yield tmp_path / "streamfilter"
    choice._found.cache_clear()


def signs() -> choice.Choice:
    """Sketch as a start does, and return who did it."""
    with chosen(AUTO) as found:
        assert len(Sketcher(PLAIN, seed=SEED).sketch(["some words to sign"]))
        return found


def test_it_is_compiled_once_and_then_loaded(cache, monkeypatch):
    assert signs().kernel is not None
    (made,) = cache.iterdir()
    assert str(made) in str(signs())
    monkeypatch.setenv("PATH", "")
    choice._found.cache_clear()
    assert signs().kernel is not None
    assert made.stat().st_mode & 0o077 == 0o055


def replaced(path: Path, content: bytes) -> None:
    """Give *path* another content: not in place, because this process has mapped the old one."""
    path.unlink()
    path.write_bytes(content)
    path.chmod(0o755)


def test_a_damaged_library_is_never_loaded_and_made_anew(cache, monkeypatch):
    signs()
    (made,) = cache.iterdir()
    whole = made.read_bytes()
    for broken in (whole[:5_000], b"\x7fELF" + bytes(99) + whole[103:], b""):
        replaced(made, broken)
        choice._found.cache_clear()
        with monkeypatch.context() as patch:
            patch.setenv("PATH", "")
            assert signs().kernel is None
    choice._found.cache_clear()
    assert signs().kernel is not None


def test_a_library_of_another_machine_leaves_the_work_to_numpy(cache):
    path = library.cache_folder() / library.file_name()
    foreign = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\0\xb7\0" + bytes(200)  # of ARM
    path.write_bytes(foreign + library._digest(foreign))
    path.chmod(0o755)
    assert str(path) in signs().why
    assert signs().kernel is None


def test_without_a_compiler_numpy_signs_and_says_why(cache, monkeypatch):
    monkeypatch.setenv("PATH", str(cache))
    assert signs() == choice.Choice(
        None, "no C compiler is found: none of cc, gcc, clang is in PATH"
    )


COMPILERS = {
    "fails": ("echo 'stdint.h: not here'; exit 1", "{} fails: stdint.h: not here"),
    "says nothing": ("exit 4", "{} fails: its exit status is 4"),
    "writes nothing": (":", "{} makes no library"),
    "hangs": ("sleep 600 & echo $! > pid; wait", "{} takes over 1 s"),
    "writes garbage": (
        'while [ $1 != -o ]; do shift; done; echo garbage > "$2"',
        "too short; remove",
    ),
    "compiles another source": (
        'while [ $1 != -o ]; do shift; done; echo "int x;" | gcc -shared -xc -o "$2" -',
        "has not all functions of the kernel; remove it",
    ),
}


@pytest.mark.parametrize("what", COMPILERS)
def test_a_compiler_that_does_not_do_it_is_named(cache, tmp_path, monkeypatch, what):
    does, why = COMPILERS[what]
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\nexec >&2\ncd {tmp_path}\n{does}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(library, "COMPILE_SECONDS", 1.0)
    assert why.format(compiler) in signs().why
    assert choice.environment()[choice.VARIABLE] == OFF, "a worker does not try it again"
    assert not [*cache.glob(".*")], "nothing is left behind"
    if what == "hangs":
        child = int((tmp_path / "pid").read_text())
        deadline = time.monotonic() + 30
        while not is_dead(child):  # a killed process dies a moment later
            assert time.monotonic() < deadline, "the compiler's child was not killed"
            time.sleep(0.01)


def is_dead(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"  # waits for its parent
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_compiler_that_hangs_is_given_up_before_a_watchdog_ends_the_service():
    unit = Path("deploy/systemd/streamfilter.service").read_text()
    (seconds,) = re.findall(r"^WatchdogSec=(\d+)$", unit, re.MULTILINE)
    assert int(seconds) > library.COMPILE_SECONDS


def test_the_next_compilation_removes_what_a_kill_and_old_versions_left(cache):
    (cache / ".kernel-killed").mkdir(parents=True)
    (cache / ".kernel-killed" / "kernel.so").touch()
    for number in range(9):
        old = cache / f"kernel-{number}.so"
        old.touch()
        os.utime(old, (number, number))
    cache.chmod(0o700)
    compiling = os.open(cache, os.O_RDONLY)
    fcntl.flock(compiling, fcntl.LOCK_SH)
    library.compile_to(cache / "ours.so")
    assert len([*cache.iterdir()]) == 11, "they may be another process's"
    os.close(compiling)
    assert signs().kernel is not None
    kept = {f"kernel-{number}.so" for number in range(2, 9)} | {"ours.so", library.file_name()}
    assert {each.name for each in cache.iterdir()} == kept


def test_a_variable_that_means_nothing_is_not_taken_for_auto():
    script = "from streamfilter.similarity.kernel.choice import choice; print(choice())"
    for value, kernel in (("0", "numpy (batch.kernel is 0)"), ("", "C kernel")):
        told = subprocess.run(
            [sys.executable, "-c", script], env=os.environ | {choice.VARIABLE: value},
            capture_output=True, text=True,
        )  # fmt: skip
        assert told.stdout.startswith(kernel)


def test_without_a_folder_that_can_be_written_numpy_signs(tmp_path, monkeypatch, cache):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(place))
        choice._found.cache_clear()
        assert signs().kernel is None
        assert "set XDG_CACHE_HOME" in signs().why
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "")  # not /.cache, into which root may write
    choice._found.cache_clear()
    assert signs().why.endswith("set XDG_CACHE_HOME or HOME")


def test_what_others_may_write_is_not_loaded(cache):
    signs()
    (made,) = cache.iterdir()
    for path, mode in ((made, 0o777), (cache, 0o770)):
        path.chmod(mode)
        choice._found.cache_clear()
        assert signs().why == f"other users may write {path}: chown it, or chmod go-w"
        path.chmod(0o700)


def test_several_processes_may_compile_it_at_once(cache):
    script = (
        "from streamfilter.similarity.kernel.choice import choice; print(choice().kernel is None)"
    )
    ran = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(4)
    ]
    assert [each.communicate(timeout=120)[0] for each in ran] == [b"False\n"] * 4
    assert [each.name for each in cache.iterdir()] == [library.file_name()]


def test_an_image_has_it_beside_the_source(cache, tmp_path, monkeypatch):
    source = tmp_path / "kernel.c"
    shutil.copy(library.SOURCE, source)
    monkeypatch.setattr(library, "SOURCE", source)
    library.compile_to(source.with_name(library.file_name()))
    monkeypatch.setenv("PATH", "")
    assert signs().why == str(tmp_path / library.file_name())
    assert not cache.exists()


def test_another_version_of_the_source_is_never_called(cache, tmp_path, monkeypatch):
    """An upgrade replaced it while a process started: another function had those arguments."""
    assert library.source_digest(library.SOURCE.read_bytes()) == library.SOURCE_DIGEST
    source = tmp_path / "kernel.c"
    source.write_text(SOURCE + "\n")
    monkeypatch.setattr(library, "SOURCE", source)
    assert signs().why == f"{source} is of another version than this process: restart it"
    assert not [*cache.iterdir()]


def test_another_source_or_machine_has_another_name(monkeypatch, tmp_path):
    name = library.file_name()
    monkeypatch.setattr(library, "FLAGS", ("-O0",))
    assert library.file_name() != name
    monkeypatch.setattr(library, "SOURCE_DIGEST", "another")
    assert library.file_name().split("-")[2:] == name.split("-")[2:]
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("", "", "", "", "s390x")))
    assert library.file_name().endswith("-s390x.so")


def test_the_setting_turns_it_off_here_and_in_worker_processes():
    with chosen(OFF) as found:
        assert (str(found), choice.kernel()) == ("numpy (batch.kernel is off)", None)
        script = "from streamfilter.similarity.kernel.choice import choice; print(choice())"
        command = [sys.executable, "-c", script]
        told = subprocess.run(command, env=choice.environment(), capture_output=True, text=True)
        assert told.stdout == f"{found}\n"


@pytest.mark.slow
def test_no_input_reads_or_writes_outside_its_columns(tmp_path):
    """Random texts and columns, under the sanitisers for addresses and undefined behaviour."""
    asan = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = os.environ | {
        "LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.similarity.hostile", str(tmp_path / "kernel.so"), "40"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-4_000:]
    assert ran.stdout == "40 cases are equal\n"
    assert ctypes.sizeof(ctypes.c_void_p) == library.WORD_BYTES
