"""podman and buildah with a storage of their own, without what a machine may forbid.

Everything is below one directory, so no image or container of the user is touched.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

BUILD_TIMEOUT_SECONDS = 1200
RUNTIME = Path(__file__).parent / "unlimited"
PROJECT = "streamfilter"
"""As compose.yaml names itself."""

PROGRAMS = ("podman", "buildah", "runc", "podman-compose", "debootstrap", "iptables")
"""Debian's packages have these names, too; netavark and aardvark-dns make the network."""


class Engine:
    """Runs podman, buildah and podman-compose on a storage in *directory*."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        directory = directory.resolve()  # podman remembers where its storage is
        (storage := directory / "storage.conf").write_text(_storage(directory))
        (containers := directory / "containers.conf").write_text(_containers())
        self.environment = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(storage),
            "CONTAINERS_CONF": str(containers),
        }

    def run(self, *command: str, timeout: float = 120, cwd: Path | None = None) -> str:
        """Return what *command* printed; fail with all of it unless it exits with 0."""
        done = self.attempt(*command, timeout=timeout, cwd=cwd)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def attempt(
        self, *command: str, timeout: float = 120, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Return how *command* ended, well or not."""
        return subprocess.run(
            command,
            env=self.environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def has(self, image: str) -> bool:
        """Return whether the storage has *image*."""
        return self.attempt("podman", "image", "exists", image).returncode == 0

    def build(
        self,
        image: str,
        containerfile: Path,
        context: Path,
        arguments: Mapping[str, str],
        *more: str,
    ) -> None:
        """Build *image* on images that are there; *more* are options of buildah's."""
        command = ["buildah", "bud", "--format", "docker", "--isolation", "chroot"]
        command += ["--network", "host", "--pull-never", "--layers", "-t", image]
        for name, value in arguments.items():
            command += ["--build-arg", f"{name}={value}"]
        command += [*more, "-f", str(containerfile), str(context)]
        self.run(*command, timeout=BUILD_TIMEOUT_SECONDS)


def _storage(directory: Path) -> str:
    return (
        "[storage]\n"
        'driver = "overlay"\n'
        f'graphroot = "{directory / "images"}"\n'
        f'runroot = "{directory / "run"}"\n'
    )


def _containers() -> str:
    """Return settings that a sandbox without systemd, its log and CAP_SYS_RESOURCE stands."""
    return (
        "[containers]\n"
        'log_driver = "k8s-file"\n'
        "[network]\n"
        'network_backend = "netavark"\n'
        "[engine]\n"
        f'runtime = "{RUNTIME}"\n'
        'cgroup_manager = "cgroupfs"\n'
        'events_logger = "file"\n'
    )
