"""The images of compose.yaml and its neighbour, made without a registry of images.

The base is Debian by debootstrap, slim by the rules of the image that the Dockerfile names, with
Debian's own Python in its place; what others make has stand-ins (`stand-ins.Containerfile`). What
takes minutes (the base, the packages) stays in the engine's storage for the next run.
"""

import subprocess
import tempfile
from pathlib import Path

from deploy.composition import DOCKERFILE, OURS, services
from deploy.local.jars import kafka_jars, registry_jars
from tests.containers.engine import Engine

HERE = Path(__file__).parent
BASE = "localhost/debian-slim-with-python"
PACKAGES = ("python3", "python3-venv", "python-is-python3", "ca-certificates")
PIPS_OWN = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
STAND_INS = {
    "kafka": kafka_jars, "registry": registry_jars, "prometheus": None, "alertmanager": None
}  # fmt: skip
"""What each copies, beside Debian's packages."""
DEBOOTSTRAP_TIMEOUT_SECONDS = 1200
FOR_PERSONS = ("doc", "info", "lintian", "locale", "man")
NOT_FILES = ("./proc/*", "./sys/*", "./dev/*", "./var/cache/apt/*", "./var/lib/apt/lists/*",
             *(f"./usr/share/{each}/*" for each in FOR_PERSONS))  # fmt: skip
"""As in Debian's slim images: what only a person reads, and what apt fetches again."""


def make(engine: Engine) -> None:
    """Make all images that are not there; ours is made anew, from what changed on."""
    if not engine.has(BASE):
        _make_base(engine)
    build_ours(engine)
    for name, jars in STAND_INS.items():
        image = f"localhost/{services(avro=True)[name].image}"
        more = ["--target", name]
        if jars:
            more += ["--build-context", f"jars={jars()}"]
        engine.build(image, HERE / "stand-ins.Containerfile", HERE, {"BASE": BASE}, *more)


def build_ours(engine: Engine) -> None:
    """Build our image as deploy/README.md says, on the base that is to be had.

    Its pip takes packages from where this machine's does, and trusts whom it trusts.
    """
    more = [f"--volume={place}:{place}:ro" for place in PIPS_OWN if Path(place).exists()]
    engine.build(f"localhost/{OURS}", DOCKERFILE, DOCKERFILE.parents[1], {"PYTHON": BASE}, *more)


def _make_base(engine: Engine) -> None:
    """Import a minimal Debian: what this machine is, from where it takes its packages."""
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if line
    )["VERSION_CODENAME"]
    sources = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    with tempfile.TemporaryDirectory(prefix="streamfilter-base-") as root:
        included = f"--include={','.join(PACKAGES)}"
        command = ("debootstrap", "--variant=minbase", included, release, root, sources[0])
        engine.run(*command, timeout=DEBOOTSTRAP_TIMEOUT_SECONDS)
        left_out = [f"--exclude={each}" for each in NOT_FILES]
        with subprocess.Popen(
            ["tar", "-C", root, *left_out, "-c", "."], stdout=subprocess.PIPE
        ) as tar:
            subprocess.run(
                ["podman", "import", "-", BASE],
                env=engine.environment,
                stdin=tar.stdout,
                capture_output=True,
                check=True,
            )
