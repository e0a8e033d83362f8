"""TLS, SCRAM and ACLs on a real broker: what is missing is named, and no secret is reported.

The rights in `rights_of` are all that the filter needs: with them it works, without any of them
it stops and names the resource.
"""

import random
import secrets
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from deploy.local.node import free_ports
from deploy.local.real import RealKafka
from streamfilter import cli
from streamfilter.kafka.connection import clients
from tests.kafka.clients.test_broker_examples import example
from tests.kafka.recovery.test_standby import scraped
from tests.kafka.story import records, texts
from tests.kafka.test_cluster import drain
from tests.support.filter_process import FilterProcess
from tests.support.secure import (
    Authority,
    Right,
    dresses,
    grant,
    revoke,
    secure_properties,
    set_password,
)
from tests.support.session.forge import Forge
from tests.support.stage import SEED_FILE, Stage

SEED, CONFIG, TEMPORARY = 20_261_126, 78, 75
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DELETE = AclOperation.DELETE


class Secured:
    """The broker, its authority, and how to start a filter as some user."""

    def __init__(self, kafka: RealKafka, authority: Authority, others: list[int]) -> None:
        self.kafka, self.authority = kafka, authority
        self.certified, self.bearer = (f"127.0.0.1:{port}" for port in others)
        """Where a certificate is asked for, and where a token."""
        self.bootstrap = kafka.bootstrap
        self.password = f"pass-{secrets.token_hex(12)}"

    def rights_of(self, stage: Stage) -> dict[str, Right]:
        topic = ResourceType.TOPIC
        return {
            "input": Right(topic, stage.input, READ),
            "unique": Right(topic, stage.unique, WRITE),
            "duplicates": Right(topic, stage.duplicates, WRITE),
            "dead_letter": Right(topic, stage.dead_letter, WRITE),
            "changelog read": Right(topic, stage.changelog, READ),
            "changelog write": Right(topic, stage.changelog, WRITE),
            "changelog create": Right(topic, stage.changelog, CREATE),
            "changelog delete": Right(topic, stage.changelog, DELETE),
            "group": Right(ResourceType.GROUP, stage.group, READ),
            "transactions": Right(ResourceType.TRANSACTIONAL_ID, f"{stage.group}.0", WRITE),
        }

    def user(self, stage: Stage, *, without: str = "") -> str:
        """Return a new user with every right but the one named *without*."""
        user = f"user-{secrets.token_hex(4)}"
        set_password(self.bootstrap, user, self.password)
        rights = self.rights_of(stage)
        grant(self.bootstrap, user, [right for name, right in rights.items() if name != without])
        return user

    @property
    def address(self) -> str:
        """Return where a password is asked for."""
        return f"127.0.0.1:{self.kafka.nodes[0].ports.proxied}"

    def common(self, user: str, password: str) -> dict[str, str]:
        """Return the properties of a client that connects as *user*."""
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority.certificate),
        }

    def start(
        self,
        stage: Stage,
        user: str,
        password: str | None = None,
        state: str = "state",
        retention: str = "unlimited",
        patience: str = "20s",
        **more: str,
    ) -> FilterProcess:
        common = {**self.common(user, password or self.password), **more}
        times = {"session_timeout": "6s", "transaction_timeout": "6s", "start_timeout": patience}
        stage.produce(records(texts(random.Random(SEED), 40)))
        kafka = {"group": stage.group, "common": common, **times}
        log = {"level": "debug"} if more else {}
        return stage.start(state=state, kafka=kafka, log=log, index={"retention": retention})

    def ended(self, process: FilterProcess, *words: str, code: int = CONFIG) -> None:
        """Check how it ended, that it said *words*, and that it reported no password."""
        assert process.wait_for_exit() == code, process.with_log("ended otherwise")
        said = process.log.read_text()
        last = "\n".join(said.splitlines()[-12:])
        assert all(word.lower() in last.lower() for word in words), last
        assert self.password not in said


@pytest.fixture(scope="module")
def secured(kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority, others = Authority.made(tmp_path_factory.mktemp("authority")), free_ports(2)
    certified, bearer = others
    properties = secure_properties(
        authority.issue("broker"), authority.certificate, certified=certified, bearer=bearer
    )
    with RealKafka(properties=properties) as broker:
        yield Secured(broker, authority, others)


@pytest.fixture
def stage(
    secured: Secured, forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    monkeypatch.setattr(clients, "_refusals", deque(maxlen=1))  # of the verbs of other tests
    stage = Stage(secured.bootstrap, tmp_path, launch=forge.launch)
    yield stage
    stage.close()


def test_without_the_right_to_delete_all_is_well_but_the_changelog_grows_and_that_is_reported(
    secured: Secured, stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    user = secured.user(stage, without="changelog delete")
    common = secured.common(user, secured.password)
    asked = stage.configuration(
        kafka={"group": stage.group, "common": common}, index={"retention": "1h"}
    )

    def checked() -> str:
        assert cli.main(["check", "--connect", "--config", str(asked)]) == 0
        return capsys.readouterr().out

    def cut(process: FilterProcess) -> tuple[float, float]:
        names = ("changelog_start_offset", "changelog_surplus_records")
        return scraped(process, names[0]), scraped(process, names[1])

    process = secured.start(stage, user, retention="1h")
    stage.drain(process)
    process.wait_for(lambda _: "Grant DELETE" in process.log.read_text(), what="a refusal")
    assert "is not cut off, and grows" in process.log.read_text()
    start, surplus = cut(process)
    assert (start, surplus > 0) == (0, True)
    assert process.terminate() == 0
    said = checked()
    assert "DELETE is missing, and what is forgotten stays in it" in said
    assert f"--operation Delete --topic {stage.changelog}" in said
    assert f"those before {surplus:.0f} belong to dropped windows" in said
    grant(secured.bootstrap, user, [secured.rights_of(stage)["changelog delete"]])
    process = secured.start(stage, user, retention="1h")
    stage.drain(process)
    process.wait_for(lambda _: cut(process) == (surplus, 0), what="a changelog that is cut off")
    assert process.terminate() == 0
    said = checked()
    assert "DELETE" not in said
    assert f"keeps the offsets {surplus:.0f} to" in said
    assert "all belong to windows that still exist" in said


WITHOUT = (
    # the right that is missing at first, and the one that is revoked while it works
    ("unique", "group"),
    ("input", "input"),
    ("duplicates", "unique"),
    ("dead_letter", "changelog write"),
    ("changelog read", "transactions"),
    ("changelog write", "group"),
    ("changelog create", "group"),
    ("group", "group"),
    ("transactions", "group"),
)


@pytest.mark.parametrize(
    ("missing", "revoked"),
    [WITHOUT[0], *(pytest.param(*each, marks=pytest.mark.long) for each in WITHOUT[1:])],
)
def test_a_missing_or_revoked_right_is_a_stop_that_names_resource_and_operation(
    secured: Secured, stage: Stage, missing: str, revoked: str
) -> None:
    if missing == "changelog read":  # only a restore reads it
        stage.end(secured.start(stage, secured.user(stage)))
    rights = secured.rights_of(stage)
    user = secured.user(stage, without=missing)
    process = secured.start(stage, user, state="other")
    secured.ended(process, rights[missing].name, rights[missing].operation.name)
    grant(secured.bootstrap, user, [rights[missing]])
    process = secured.start(stage, user, state="other")
    stage.drain(process)
    revoke(secured.bootstrap, user, [rights[revoked]])
    stage.produce(records(texts(random.Random(SEED + 1), 20), first=1_000))
    secured.ended(process, rights[revoked].name, rights[revoked].operation.name)


PATHS = ("/", "/page.js", "/metrics", "/status", "/livez", "/readyz")


def test_no_secret_is_reported_anywhere_however_much_is_logged(
    secured: Secured, stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong password, then the right one, with everything that librdkafka can log.

    `check` said of it to try again, with 75: a supervisor would have tried for ever.
    """
    key_password, wrong = (f"{word}-{secrets.token_hex(12)}" for word in ("key", "wrong"))
    (tmp_path / "key-password").write_text(key_password)
    (tmp_path / "password").write_text(secured.password)
    key, certificate = secured.authority.issue_encrypted("client", key_password)
    more = {
        "debug": "all",
        "ssl.key.location": str(key),
        "ssl.certificate.location": str(certificate),
        "ssl.key.password": f"${{file:{tmp_path / 'key-password'}}}",
    }
    user = secured.user(stage)
    refused = secured.start(stage, user, wrong, state="other", patience="10s", **more)
    secured.ended(refused, "authentication")
    own = {"group": stage.group, "common": secured.common(user, wrong)}
    asked = ["check", "--connect", "--apply", "--config", str(stage.configuration(kafka=own))]
    assert cli.main(asked) == CONFIG
    said = "".join(capsys.readouterr())
    for words in (secured.address, "Authentication failed", "mend the credentials"):
        assert words in said
    assert "try again" not in said
    process = secured.start(stage, user, f"${{file:{tmp_path / 'password'}}}", **more)
    stage.drain(process)
    answers = "".join(process.get(path) or "" for path in PATHS)
    assert process.terminate() == 0
    log = process.log.read_text()
    assert "SASL" in log  # it logs everything
    assert "streamfilter_records_consumed_total" in answers
    everything = answers + log + refused.log.read_text() + said
    planted = [secured.password, wrong, key_password, SEED_FILE.decode("latin-1")]
    for secret in planted:
        for dressed in dresses(secret.encode("latin-1")):
            assert dressed not in everything.encode()


def test_an_expired_certificate_is_a_stop_that_says_so(secured, stage, request):
    present = _keystore(secured, secured.authority.issue("expired", days=-1))
    request.addfinalizer(lambda: present(secured.authority.issue("renewed")))
    process = secured.start(stage, secured.user(stage), patience="10s")
    secured.ended(process, "certificate verify failed", code=75)


def _keystore(secured: Secured, first: Path) -> Callable[[Path], None]:
    """Give the running broker another certificate; return what does it again."""

    def present(keystore: Path) -> None:
        admin = AdminClient({"bootstrap.servers": secured.bootstrap})
        entry = ConfigEntry(
            "listener.name.proxied.ssl.keystore.location",
            str(keystore),
            incremental_operation=AlterConfigOpType.SET,
        )
        node = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([node]).values():
            future.result(30)

    present(first)
    return present


def test_check_makes_the_rights_of_each_role_and_they_are_enough(
    secured: Secured, stage: Stage, make_stage: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A super user asks for two users without a right; then a judge and an edge work as them.

    Without an authoriser, or the right to list ACLs, only what is known is reported.
    """
    open_to_all = ["check", "--connect", "--config", str(make_stage().configuration())]
    assert cli.main([*open_to_all, "--principal", "User:other"]) == 0
    common = secured.common(secured.user(stage), secured.password)
    own = stage.configuration(kafka={"group": stage.group, "common": common})
    assert cli.main(["check", "--connect", "--config", str(own)]) == 0
    capsys.readouterr()
    other = ("--principal", "User:other")
    assert cli.main(["check", "--connect", "--config", str(own), *other]) == CONFIG
    assert "the ACLs of User:other are not known" in capsys.readouterr().out
    cluster: dict[str, Any] = {"cluster": {"enabled": True}}
    plain = {"group": stage.group, "common": {"bootstrap.servers": secured.bootstrap}}
    asked = ["check", "--connect", "--config", str(stage.configuration(kafka=plain, **cluster))]

    def checked(*more: str) -> tuple[int, str]:
        return cli.main([*asked, *more]), capsys.readouterr().out

    users = {role: f"{role}-{secrets.token_hex(4)}" for role in ("judge", "edge")}
    for role, user in users.items():
        set_password(secured.bootstrap, user, secured.password)
        chosen = ("--role", role, "--principal", f"User:{user}")
        code, said = checked(*chosen)
        assert code == CONFIG
        brokers = f"kafka-acls.sh --bootstrap-server {secured.bootstrap} --add --allow-principal"
        prefix = f" --transactional-id {stage.group}.edge. --resource-pattern-type prefixed"
        assert f"{brokers} User:{user} --operation Read --topic {stage.input}\n" in said
        assert (prefix in said) is (role == "edge")
        assert (f"--operation Write --topic {stage.unique}" in said) is (role == "edge")
        code, said = checked("--apply", *chosen)
        assert (code, "lacks" in said) == (0, False), said
        assert f"WRITE on transactional id {stage.group}." in said
    assert checked("--principal", "User:nobody")[0] == CONFIG
    stage.produce(records(texts(random.Random(SEED), 40)))
    admin = AdminClient({"bootstrap.servers": secured.bootstrap})
    between = [f"{stage.group}.sketches", f"{stage.group}.verdicts"]
    for deleted in admin.delete_topics(between).values():
        deleted.result(30)

    def started(role: str) -> FilterProcess:
        common = secured.common(users[role], secured.password)
        kafka = {"group": stage.group, "common": common}
        return stage.start(state=role, arguments=["--role", role], kafka=kafka, **cluster)

    early = started("edge")
    assert early.wait_for_exit() == TEMPORARY, early.with_log("did not wait for the judge's topics")
    assert "this user may not create them" in early.log.read_text()
    assert checked("--apply")[0] == 0
    processes = [started("judge")]
    processes[0].wait_for_state("running")
    processes.append(started("edge"))
    drain(stage, processes)
    for process in processes:
        assert process.terminate() == 0, process.with_log("did not end well")


@pytest.mark.parametrize(
    "needed",
    [
        pytest.param(slice(None), marks=pytest.mark.long, id="each"),
        pytest.param(slice(3, 4), id="transactional id"),
    ],
)
def test_check_makes_the_rights_to_take_over_and_each_is_needed(
    secured: Secured, stage: Stage, capsys: pytest.CaptureFixture[str], needed: slice
) -> None:
    stage.end(secured.start(stage, secured.user(stage)))
    old, user, topic = stage.group, f"new-{secrets.token_hex(4)}", ResourceType.TOPIC
    set_password(secured.bootstrap, user, secured.password)
    kafka = {"group": f"{old}.new", "session_timeout": "6s", "start_timeout": "20s"}
    sections: dict[str, Any] = {"input": {"take_over": old}}
    plain = kafka | {"common": {"bootstrap.servers": secured.bootstrap}}
    config = str(stage.configuration(kafka=plain, **sections))
    asked = ["check", "--connect", "--config", config, "--principal", f"User:{user}"]
    over = [
        Right(ResourceType.GROUP, old, AclOperation.DESCRIBE),
        Right(topic, f"{old}.changelog", READ),
        Right(topic, f"{old}.changelog", WRITE),
        Right(ResourceType.TRANSACTIONAL_ID, f"{old}.0", WRITE),
        Right(topic, stage.unique, READ),
    ]
    assert cli.main(asked) == CONFIG
    said = capsys.readouterr().out
    assert all(f"{each.operation.name.title()}" in said and each.name in said for each in over)
    assert cli.main([*asked, "--apply"]) == 0
    sections["kafka"] = kafka | {"common": secured.common(user, secured.password)}
    for right in over[needed]:
        revoke(secured.bootstrap, user, [right])
        process = stage.start(state="new", **sections)
        secured.ended(process, right.name, right.operation.name)
        grant(secured.bootstrap, user, [right])
    assert f"took over from the group {old}" in stage.run(state="new", **sections)


def test_a_filter_with_a_certificate_works_and_without_one_it_is_refused(secured, stage, capsys):
    ours = secured.authority.issue("filter").with_suffix(".key")
    brokers = example("mtls")
    brokers["common"] |= {
        "bootstrap.servers": secured.certified,
        "ssl.ca.location": str(secured.authority.certificate),
        "ssl.certificate.location": str(ours.with_suffix(".crt")),
        "ssl.key.location": str(ours),
    }
    brokers["start_timeout"] = "10s"
    configuration = stage.configuration(kafka=brokers)
    assert cli.main(["check", "--connect", "--config", str(configuration)]) == 0
    stage.produce(records(texts(random.Random(SEED), 1)))
    process = stage.start(kafka=brokers)
    stage.drain(process)
    assert process.terminate() == 0
    assert len(stage.outputs()["unique"]) == 1
    for name in ("ssl.certificate.location", "ssl.key.location"):
        del brokers["common"][name]
    configuration = stage.configuration(kafka=brokers)
    capsys.readouterr()
    assert cli.main(["check", "--connect", "--config", str(configuration)]) != 0
    # The broker's alert may be lost with the connection; the cure is the same.
    assert "kafka.common.ssl.certificate.location" in capsys.readouterr().out


LIFETIME_SECONDS = 6
"""Of the broker's tokens: several are needed in a test."""
PAUSE_SECONDS = 8.0
PROGRAM = f"""
import base64, json, pathlib, sys, time
def part(fields):
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")
now = time.time()
claims = {{"sub": "filter", "iat": now, "exp": now + {LIFETIME_SECONDS}}}
token = part({{"alg": "none"}}) + "." + part(claims) + "."
with open(sys.argv[1], "a") as said:
    said.write(token + "\\n")
answer = {{"access_token": token, "expires_in": {LIFETIME_SECONDS}, "principal": "filter"}}
print(json.dumps(answer))
"""


@pytest.mark.slow(30)
def test_a_filter_works_with_tokens_of_a_program_through_several_of_them(secured, stage, tmp_path):
    program, said = tmp_path / "token.py", tmp_path / "said"
    program.write_text(PROGRAM)
    brokers = example("oauthbearer")
    del brokers["common"]["ssl.ca.location"]
    brokers["common"] |= {
        "bootstrap.servers": secured.bearer, "security.protocol": "SASL_PLAINTEXT"
    }  # fmt: skip
    brokers["oauth"] = {"command": [sys.executable, str(program), str(said)]}
    configuration = stage.configuration(kafka=brokers)
    assert cli.main(["check", "--connect", "--config", str(configuration)]) == 0
    process = stage.start(kafka=brokers, log={"level": "debug"})
    for _ in range(2):
        stage.produce(records(["a b c d"]))
        stage.drain(process)
        time.sleep(PAUSE_SECONDS)
    tokens = said.read_text().split()
    assert len(tokens) > 3, "they expire after some seconds"
    assert process.terminate() == 0
    log = process.log.read_text()
    assert not [token for token in tokens if token in log]
    came = {name: len(each) for name, each in stage.outputs().items()}
    assert came == {"unique": 1, "duplicates": 1, "dead_letter": 0}
