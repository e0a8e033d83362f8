"""The kernel's library: `kernel.c`, compiled once for each machine, checked, and loaded.

It is looked for beside this file, where an image has it, and then in the user's cache folder. Its
name holds a digest of the source and of how it is compiled, so another version never loads it.
Behind the compiled bytes stands their digest, so a damaged or cut file is never loaded. If it is
in neither place and there is a compiler, it is compiled to another name and then renamed. So
several processes may do it at once. Without a library, numpy does the work; no start fails.

    python -P -m streamfilter.similarity.kernel.library    compiles it beside this file
"""

import ctypes
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

SOURCE = Path(__file__).with_name("kernel.c")
SOURCE_DIGEST = "a756a8a429e98b76"  # of the `kernel.c` that is called: `source_digest`

ARGUMENTS = {
    "ascii": "pipippippppp",
    "fold": "pipippppp",
    "encode": "pipippiipippppp",
    "characters": "pipiippip",
    "hash": "pippippppp",
    "runs": "pipiipppp",
    "sign": "pipiipppp",
    "samples": "pipiipippp",
    "passed": "pipip",
    "add": "ppi",
}
"""The arguments of each function: p a column, i an integer of 64 bits. All return an integer."""

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c11", "-O3", "-shared", "-fPIC", "-fvisibility=hidden")
"""Without -march: the library also runs on an older processor that shares the folder."""
COMPILE_SECONDS = 20.0  # ten times what it takes; below any watchdog, because the loop waits
BYTES_MAX = 4 << 20
DIGEST_BYTES = 16
SAID_BYTES = 1_000
HIDDEN = ".kernel-"  # a folder in which one process compiles
KEPT = 7
"""Libraries of other versions and machines in the same cache folder: so many of the newest stay."""
CURE = "remove it, or set batch.kernel: off"
WORD_BYTES = 8


class NoLibraryError(Exception):
    """There is no library; the message says why, and what to do."""


class DamagedError(NoLibraryError):
    """A file is cut short or damaged."""


def opened() -> tuple[ctypes.CDLL, Path]:
    """Return the library and its file, compiled first if need be.

    Raises:
        NoLibraryError: there is none for this machine.
    """
    if os.name != "posix" or ctypes.sizeof(ctypes.c_void_p) != WORD_BYTES:
        raise NoLibraryError("the kernel is for POSIX systems of 64 bits")
    try:
        beside = SOURCE.with_name(file_name())
        if beside.is_file():
            return loaded(beside), beside
        path = cache_folder() / beside.name
        try:
            if path.is_file():
                return loaded(path), path
        except DamagedError:
            pass  # it is made anew
        compile_to(path)
        return loaded(path), path
    except OSError as error:  # no folder, no room, or a library of another machine
        raise NoLibraryError(str(error)) from None


def source() -> bytes:
    """Return the source of this version.

    An upgrade may replace both files while a process starts, and C checks no argument's kind.

    Raises:
        NoLibraryError: it is of another version.
    """
    content = SOURCE.read_bytes()
    if source_digest(content) != SOURCE_DIGEST:
        raise NoLibraryError(f"{SOURCE} is of another version than this process: restart it")
    return content


def source_digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def file_name() -> str:
    """Return the name of the library's file: it differs by source, flags and machine."""
    made = SOURCE_DIGEST + " ".join(FLAGS)
    digest = hashlib.blake2b(made.encode(), digest_size=8).hexdigest()
    system = getattr(sys.implementation, "_multiarch", sys.platform)
    return f"kernel-{digest}-{system}-{os.uname().machine}.so"


def cache_folder() -> Path:
    """Return the user's cache folder of streamfilter, made if it is not there.

    Raises:
        NoLibraryError: there is none, or others may write into it.
    """
    home = os.environ.get("HOME", "~")  # empty: there is none, and `expanduser` would say "/"
    root = os.environ.get("XDG_CACHE_HOME") or (home and os.path.expanduser("~/.cache"))
    if not os.path.isabs(root):
        raise NoLibraryError("no folder to compile it into: set XDG_CACHE_HOME or HOME")
    folder = Path(root, "streamfilter")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        cure = "set XDG_CACHE_HOME to a folder that can be written"
        raise NoLibraryError(f"no folder to compile it into: {error}; {cure}") from None
    _require_ours(folder)
    return folder


def _require_ours(path: Path) -> None:
    """Refuse what another user could have written: it would be run as our code."""
    status = path.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise NoLibraryError(f"other users may write {path}: chown it, or chmod go-w")


def loaded(path: Path) -> ctypes.CDLL:
    """Return the library in the file at *path*.

    Raises:
        OSError: it cannot be read.
        DamagedError: it is cut short or damaged.
        NoLibraryError: it is for another machine, or is no kernel.
    """
    with open(path, "rb") as file:
        content = file.read(BYTES_MAX)
    if _digest(content[:-DIGEST_BYTES]) != content[-DIGEST_BYTES:]:
        raise DamagedError(f"{path} is damaged; remove it")
    if path.parent != SOURCE.parent:
        _require_ours(path)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise NoLibraryError(f"{error}; {CURE}") from None
    if not all(hasattr(library, f"sf_{name}") for name in ARGUMENTS):
        raise NoLibraryError(f"{path} has not all functions of the kernel; {CURE}")
    return library


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES, person=b"kernel").digest()


def compile_to(path: Path, flags: Sequence[str] = FLAGS) -> None:
    """Compile the kernel to the file *path*; a kill leaves the old file, or the new one.

    It may also leave a hidden folder, which the next compilation removes.

    Raises:
        OSError: the folder cannot be written.
        NoLibraryError: there is no compiler, or it fails.
    """
    import shutil
    import tempfile

    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NoLibraryError(f"no C compiler is found: none of {', '.join(COMPILERS)} is in PATH")
    with _swept(path), tempfile.TemporaryDirectory(prefix=HIDDEN, dir=path.parent) as folder:
        made, read = Path(folder, "kernel.so"), Path(folder, SOURCE.name)
        read.write_bytes(source())
        _compile([compiler, *flags, "-o", str(made), str(read)], Path(folder, "errors"))
        if not made.is_file():
            raise NoLibraryError(f"{compiler} makes no library")
        content = made.read_bytes()
        made.write_bytes(content + _digest(content))
        made.chmod(0o755)
        made.replace(path)


@contextmanager
def _swept(path: Path) -> Iterator[None]:
    """Remove what killed compilations and old versions left, unless another process compiles.

    Whoever compiles shares the folder's lock, which ends with the process. On a file system without
    such locks nothing is removed.
    """
    import fcntl
    import shutil

    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in path.parent.glob(f"{HIDDEN}*"):
                shutil.rmtree(left, ignore_errors=True)
            others = set(path.parent.glob("kernel-*.so")) - {path}
            for old in sorted(others, key=lambda each: each.stat().st_mtime)[:-KEPT]:
                old.unlink()
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_SH)
        yield
    finally:
        os.close(folder)


def _compile(command: list[str], errors: Path) -> None:
    """Run the compiler, and no longer than `COMPILE_SECONDS`; what it says goes to a file."""
    import signal
    import subprocess

    with (
        open(errors, "wb") as file,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        ) as process,
    ):
        try:
            status = process.wait(COMPILE_SECONDS)
        except BaseException as error:  # Ctrl-C, too: its children would run on
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise NoLibraryError(f"{command[0]} takes over {COMPILE_SECONDS:g} s") from None
    if status:
        with open(errors, "rb") as written:
            said = written.readline(SAID_BYTES).decode(errors="replace").strip()
        raise NoLibraryError(f"{command[0]} fails: {said or f'its exit status is {status}'}")


if __name__ == "__main__":
    compile_to(SOURCE.with_name(file_name()))
    print(opened()[1])
