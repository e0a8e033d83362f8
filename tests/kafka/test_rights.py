"""Rights decided by ACLs as Kafka decides them; `tests/faults/test_security.py` asks a broker."""

import re
import shlex
from typing import Any

import pytest

from streamfilter.config.loading import load_config
from streamfilter.kafka.brokers import rights
from streamfilter.kafka.brokers.rights import Acls, Right, check_rights, command_for
from tests.support.cases import cases
from tests.support.texts import TEXTS

BOB = "User:bob"
TOPIC, GROUP = Right("topic", "news", ("READ",)), Right("group", "news", ("READ",))
IDS = Right("transactional id", "news.", ("WRITE",), prefixed=True)


def acl(
    kind: str, name: str, operation: str, *, who: str = BOB, how: str = "LITERAL", may: bool = True
) -> Any:
    return rights.AclBinding(
        rights.ResourceType[kind], name, rights.ResourcePatternType[how], who, "*",
        rights.AclOperation[operation], rights.ALLOW if may else rights.DENY,
    )  # fmt: skip


@cases(
    ("right", "acls", "lacking"),
    [
        (TOPIC, [], ("READ",)),
        (TOPIC, [acl("TOPIC", "news", "READ")], ()),
        (TOPIC, [acl("TOPIC", "*", "ALL", who="User:*")], ()),
        (TOPIC, [acl("TOPIC", "n", "READ", how="PREFIXED")], ()),
        (TOPIC, [acl("TOPIC", "n", "READ")], ("READ",)),
        (TOPIC, [acl("TOPIC", "news", "READ"), acl("TOPIC", "*", "ALL", may=False)], ("READ",)),
        (IDS, [acl("TRANSACTIONAL_ID", "news.0", "WRITE")], ("WRITE",)),
        (IDS, [acl("TRANSACTIONAL_ID", "news", "WRITE", how="PREFIXED")], ()),
    ],
)
def test_acls_allow_and_deny_as_kafka_says(right, acls, lacking):
    assert Acls(acls, frozenset()).lacks(BOB, right) == lacking


def test_where_a_resource_without_an_acl_is_open_only_the_others_lack_a_right():
    """A first ACL on an open topic would close it to everybody else."""
    acls = Acls([acl("TOPIC", "news", "READ", who="User:eve")], frozenset(), open=True)
    assert acls.lacks(BOB, TOPIC) == ("READ",)
    assert acls.lacks(BOB, GROUP) == ()


def test_our_user_is_a_super_user_where_it_may_do_what_no_acl_allows():
    owned, ours = rights.OWNED, acl("BROKER", "kafka-cluster", "ALL")
    assert Acls([], owned).favours(BOB)
    assert not Acls([ours], owned).favours(BOB)
    assert not Acls([], frozenset()).favours(BOB)
    assert not Acls([], owned, open=True).favours(BOB)
    others = acl("BROKER", "kafka-cluster", "ALL", who="User:eve")
    assert Acls([others], owned, open=True).favours(BOB)


def test_a_denied_right_is_not_made_and_its_cure_is_no_further_acl(monkeypatch):
    config, made = load_config(), []
    denied = acl("TOPIC", config.output.unique, "WRITE", may=False)
    monkeypatch.setattr(rights, "admin_client", lambda *_: None)
    topics = config.topics.values()
    monkeypatch.setattr(rights, "_described", lambda _: Acls([denied, *made], frozenset()))
    monkeypatch.setattr(rights, "_bindings", lambda _: [denied, *made])

    def make(_: object, principal: str, missing: list[Right]) -> list[str]:
        for each in missing:
            how = "PREFIXED" if each.prefixed else "LITERAL"
            kind = rights.TYPES[each.kind]
            made.extend(acl(kind, each.name, what, how=how) for what in each.operations)
        return [each.name for each in missing]

    monkeypatch.setattr(rights, "_make", make)
    names, (problem,) = check_rights(config, [None], BOB, existing=topics, apply=True)
    assert names
    assert f"{BOB} lacks WRITE on topic {config.output.unique}: an ACL denies it" in problem.got
    assert "--add" not in problem.cure
    again = check_rights(config, [None], BOB, existing=topics, apply=True)
    assert again == ([], [problem])


@pytest.mark.parametrize(("asked", "warning"), [(BOB, False), (None, True)])
def test_rights_that_cannot_be_seen_are_not_passed_over(monkeypatch, asked, warning):
    """--apply was to make ACLs: without the right to see them it makes none, and says so."""
    monkeypatch.setattr(rights, "admin_client", lambda *_: None)
    monkeypatch.setattr(rights, "_described", lambda _: "our user lacks DESCRIBE")
    _, (problem,) = check_rights(load_config(), [None], asked, existing=(), apply=True)
    assert problem.warning is warning
    assert "our user lacks DESCRIBE" in problem.got
    silent = check_rights(load_config(), [None], None, existing=(), apply=False)
    assert silent == ([], [])


def test_a_super_user_that_the_brokers_name_lacks_nothing(monkeypatch):
    config = load_config()
    monkeypatch.setattr(rights, "admin_client", lambda *_: None)
    seen = Acls([], frozenset(), supers=frozenset({BOB}))
    monkeypatch.setattr(rights, "_described", lambda _: seen)
    assert check_rights(config, [None], BOB, existing=(), apply=True) == ([], [])
    assert check_rights(config, [None], "User:eve", existing=(), apply=False)[1]


def test_apply_asks_for_the_name_that_only_a_certificate_has(monkeypatch):
    """It made no ACL, and said nothing."""
    monkeypatch.setattr(rights, "admin_client", lambda *_: None)
    monkeypatch.setattr(rights, "_described", lambda _: Acls([], frozenset()))
    made, (problem,) = check_rights(load_config(), [None], None, existing=(), apply=True)
    assert (made, problem.warning) == ([], True)
    assert "--principal User:NAME" in problem.cure
    assert check_rights(load_config(), [None], None, existing=(), apply=False) == ([], [])


def test_the_readme_names_the_rights_that_check_asks_for():
    """Each row of its table, for a single process whose index forgets."""
    text = TEXTS["deploy/README.md"].partition("### Rights and secrets")[2]
    rows = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", text.partition("explain")[0], re.M))
    config = load_config(overrides=["index.retention=30d"])
    names = {config.changelog_topic: "changelog topic", config.input.topic: "input topic"}
    names |= dict.fromkeys(config.topics.values(), "output topics") | names
    named = {rights.GROUP: "group", rights.TRANSACTIONS: "transactional id `<group>.<task>`"}
    wanted: dict[str, set[str]] = {}
    for right in rights.rights_of(config, None):
        row = named.get(right.kind) or names[right.name]
        wanted.setdefault(row, set()).update(right.operations)
    said = {row: set(re.findall(r"[A-Z]{4,}", rows[row])) for row in wanted}
    assert said == wanted


@pytest.mark.parametrize("name", ["o'neil", "CN=o neil,O=x", "$HOME", "a_b"])
def test_a_shell_reads_the_names_in_a_cure_as_they_are(name):
    right = Right("topic", name, ("READ",))
    words = shlex.split(command_for(load_config(), f"User:{name}", right))
    assert words[words.index("--allow-principal") + 1] == f"User:{name}"
    assert words[words.index("--topic") + 1] == name
