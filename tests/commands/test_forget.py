"""`forget --yes`: what it writes, by where the service looks for ids."""

from typing import Any

import pytest

from streamfilter.cli import main
from streamfilter.kafka import topic_sample, traffic


class Sent(list[tuple[bytes, dict[str, bytes]]]):
    """Stands for the topic: key and headers of each tombstone."""

    def __call__(self, *_: Any, **__: Any) -> "Sent":
        return self

    def partitions(self) -> int:
        return 1

    def send(self, value: None, *, key: bytes, headers: dict[str, bytes], **_: Any) -> None:
        assert value is None
        self.append((key, headers))

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(
    ("where", "key", "headers"),
    [
        ("null", b"a1", {}),
        ("key", b"a1", {}),
        ("/id", b"a1", {}),
        ("header:story", b"a1", {"story": b"a1"}),
        ("key#/payload/id", b'{"payload": {"id": "a1"}}', {}),
    ],
)
def test_a_tombstone_bears_its_id_as_its_key_and_in_the_header_if_one_is_named(
    tmp_path, monkeypatch, where, key, headers
):
    sent = Sent()
    monkeypatch.setattr(traffic, "Feed", sent)
    config = tmp_path / "streamfilter.yaml"
    config.write_text(f"input: {{id: {where}, tombstones: forget}}\n")
    assert main(["forget", "--config", str(config), "a1", "--yes"]) == 0
    assert sent == [(key, headers)]


@pytest.mark.parametrize(
    ("topics", "written", "code"),
    [
        ("['news.*', blogs]", "blogs", 0),
        ("['news.*']", "news.a", 0),
        ("['other.*']", "no topic fits other.*", 75),
    ],
)
def test_one_of_several_topics_gets_the_tombstone(
    tmp_path, monkeypatch, capsys, topics, written, code
):
    monkeypatch.setattr(traffic, "Feed", Sent())
    monkeypatch.setattr(topic_sample, "names", lambda config: ["blogs", "news.a", "news.b"])
    config = tmp_path / "streamfilter.yaml"
    config.write_text(
        f"input: {{topics: {topics}, tombstones: forget}}\n"
        "output: {unique: u, duplicates: d, dead_letter: l}\n"
    )
    assert main(["forget", "--config", str(config), "a1", "--yes"]) == code
    assert written in "".join(capsys.readouterr())


@pytest.mark.parametrize("more", [[], ["--yes"]])
def test_a_scope_that_no_record_can_have_is_refused_before_anything_is_shown(
    tmp_path, capsys, more
):
    config = tmp_path / "streamfilter.yaml"
    config.write_text("input: {tombstones: forget}\nindex: {scope_field: /tenant}\n")
    assert main(["forget", "--config", str(config), "--scope", "\udcff", "a1", *more]) == 64
    assert "--scope is not valid Unicode" in "".join(capsys.readouterr())
