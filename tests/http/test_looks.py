"""The page on a phone, in light and in dark: nothing sticks out, and everything can be read."""

import functools
import html
import http.server
import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamfilter.monitoring
from streamfilter.monitoring.web.pages import Pages
from tests.http.browser import ask
from tests.http.test_page import pages  # noqa: F401 (a fixture)

PAGE = Path(streamfilter.monitoring.__file__).parent / "page"
MEASURE = Path(__file__).parent / "measure.html"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site(pages: Pages, tmp_path: Path) -> Iterator[str]:  # noqa: F811
    """Serve the page as it is, its status, and a page that measures it in a frame of 390 px."""
    folder = tmp_path / "site"
    shutil.copytree(PAGE, folder)
    shutil.copy(MEASURE, folder)
    status = json.loads(pages.answer("/page.json")[2])
    name = "a-pod-with-a-long-name-in-a-cluster-0-12345"
    crowded = {"state": "standby", "instance": name * 2, "owners": {"task 0": name + "6" * 40}}
    (folder / "page.json").write_text(json.dumps(status | crowded))
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/measure.html"
        server.shutdown()


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_on_a_phone_nothing_sticks_out_and_everything_can_be_read(site, mode, tmp_path):
    dark = ["--force-dark-mode"] if mode == "dark" else []
    size = ["--window-size=500,3300"]
    found = ask(site, tmp_path / "profile", "--dump-dom", *size, *dark)
    measured = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', found)[1]))
    assert measured["wide"] == []
    assert measured["faint"] == []
    inside, given = measured["width"]
    assert inside == given == 390
    assert measured["where"].endswith(f"12345{'6' * 40}")
    shades = [int(part) for part in re.findall(r"\d+", measured["ground"])[:3]]
    assert all(shade < 64 for shade in shades) if mode == "dark" else min(shades) > 192
