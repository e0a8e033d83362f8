"""The rights (ACLs) of each role: those it needs, those it lacks, and the commands that add them.

| role           | what it may do                                                               |
|----------------|------------------------------------------------------------------------------|
| single process | read the input, write outputs, read and write the changelog; with            |
|                | input.take_over, the same of the old group's, and read the unique topic      |
| edge           | read input, verdicts and changelog; write outputs and sketches               |
| judge          | read input and sketches; write verdicts; read and write the changelog; see   |
|                | the outputs                                                                  |

Brokers list ACLs to users with DESCRIBE on the cluster. Their setting super.users names the super
users, if our user may read it. Otherwise our own user is one where brokers allow it what no ACL
does. Without an authoriser nothing is checked. With allow.everyone.if.no.acl.found, a resource
without an ACL is open, and a first ACL would close it to all others; so none is made.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from shlex import quote
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as _admin
from confluent_kafka.admin import AdminClient
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.assembly import retention_for
from streamfilter.config.configuration import Config
from streamfilter.kafka.brokers.topics import outputs_of
from streamfilter.kafka.connection.clients import admin_client, transactional_id
from streamfilter.kafka.connection.errors import kafka_errors
from streamfilter.kafka.connection.one_shot_calls import CALL_SECONDS, asked_once
from streamfilter.stops import Problem

AclBinding: Any = _admin.AclBinding  # type: ignore[attr-defined]  # exported without types
AclBindingFilter: Any = _admin.AclBindingFilter  # type: ignore[attr-defined]
AclOperation: Any = _admin.AclOperation  # type: ignore[attr-defined]
AclPermissionType: Any = _admin.AclPermissionType  # type: ignore[attr-defined]
ConfigResource: Any = _admin.ConfigResource  # type: ignore[attr-defined]
ResourcePatternType: Any = _admin.ResourcePatternType  # type: ignore[attr-defined]
ResourceType: Any = _admin.ResourceType  # type: ignore[attr-defined]

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
OWNED = frozenset(
    {"CREATE", "ALTER", "CLUSTER_ACTION"}
)  # on the cluster; no other ACL implies them
OPEN = "allow.everyone.if.no.acl.found"
EDGE, JUDGE = "edge", "judge"  # `run --role`
SEEN_SECONDS, LOOK_AGAIN_SECONDS = 10.0, 0.2  # until brokers list ACLs that were just made
TOPIC, GROUP, TRANSACTIONS = "topic", "group", "transactional id"
OPTIONS = {TOPIC: "topic", GROUP: "group", TRANSACTIONS: "transactional-id"}
TYPES = {TOPIC: "TOPIC", GROUP: "GROUP", TRANSACTIONS: "TRANSACTIONAL_ID"}
CREATE = "CREATE"
IMPLY = {"DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER")}
"""Operations whose allowance allows another one, too."""


class Right(Struct, frozen=True):
    """Operations on one resource that a role needs."""

    kind: str
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False  # the name is the beginning of names
    why: str = ""  # what goes wrong without it, if the role works nevertheless

    def __str__(self) -> str:
        """Return it as a line of text; CREATE is needed only for a topic that does not exist."""
        needed = [each for each in self.operations if each != CREATE]
        created = ", and CREATE unless it exists" if CREATE in self.operations else ""
        how = " (prefixed)" if self.prefixed else ""
        why = f", or {self.why}" if self.why else ""
        return f"{' and '.join(needed)} on {self.kind} {self.name}{how}{created}{why}"


def rights_of(config: Config, role: str | None) -> list[Right]:
    """Return the least rights of a *role*; None is a single process."""
    changelog, group = config.changelog_topic, config.kafka.group
    inputs = config.input.topics or (config.input.topic,)
    read = [Right(TOPIC, name, ("READ",)) for name in inputs]
    outputs = [Right(TOPIC, name, ("WRITE",)) for name in outputs_of(config)]
    if role == EDGE:
        return [
            *read,
            Right(TOPIC, config.verdicts_topic, ("READ",)),
            Right(TOPIC, changelog, ("READ",)),
            *outputs,
            Right(TOPIC, config.sketches_topic, ("WRITE",)),
            Right(GROUP, config.edge_group, ("READ",)),
            Right(TRANSACTIONS, f"{config.edge_group}.", ("WRITE",), prefixed=True),
        ]
    own = [
        Right(TOPIC, changelog, ("READ", "WRITE", CREATE)),
        *[Right(TOPIC, changelog, ("DELETE",), why="it grows")] * retention_for(config).limited,
        Right(GROUP, group, ("READ",)),
    ]
    several = config.index.scope == "partition"
    own_id = f"{group}." if several else transactional_id(group, 0)
    last = Right(TRANSACTIONS, own_id, ("WRITE",), prefixed=several)
    if role == JUDGE:
        between = [
            Right(TOPIC, config.sketches_topic, ("READ", CREATE)),
            Right(TOPIC, config.verdicts_topic, ("WRITE", CREATE)),
        ]
        seen = [Right(TOPIC, name, ("DESCRIBE",)) for name in outputs_of(config)]
        return [*read, *seen, *between, *own, last]
    return [*read, *outputs, *own, last, *_rights_over(config)]


def _rights_over(config: Config) -> list[Right]:
    """Return the rights to take over another group, if the configuration names one."""
    if (group := config.input.take_over) is None:
        return []
    return [
        Right(GROUP, group, ("DESCRIBE",)),
        Right(TOPIC, f"{group}.changelog", ("READ", "WRITE")),
        Right(TRANSACTIONS, transactional_id(group, 0), ("WRITE",)),
        Right(TOPIC, config.output.unique, ("READ",)),
    ]


class Acls(Struct, frozen=True):
    """The ACLs and settings of the brokers that decide about rights."""

    bindings: Sequence[Any]
    ours: frozenset[str]  # what our user may do with the cluster, of `OWNED`
    open: bool = False  # whether everybody may use a resource without an ACL
    supers: frozenset[str] = frozenset()  # those that the brokers' setting names

    def lacks(self, principal: str, right: Right) -> tuple[str, ...]:
        """Return the operations of *right* that *principal* may not do, as Kafka decides it."""
        there = [each for each in self.bindings if _covers(each, right)]
        if self.open and not there:
            return ()
        allowed, denied = (_operations(there, principal, how) for how in (ALLOW, DENY))
        return tuple(
            each
            for each in right.operations
            if {each, "ALL"} & denied or not {each, "ALL", *IMPLY.get(each, ())} & allowed
        )

    def denies(self, principal: str, right: Right) -> bool:
        """Return whether an ACL denies an operation of *right*: no further ACL allows it then."""
        there = [each for each in self.bindings if _covers(each, right)]
        return bool({*right.operations, "ALL"} & _operations(there, principal, DENY))

    def favours(self, principal: str) -> bool:
        """Return whether *principal*, which is our user, may do what no ACL allows it."""
        there = [each for each in self.bindings if each.restype.name == "BROKER"]
        allowed = _operations(there, principal, ALLOW)
        explained = (self.open and not there) or "ALL" in allowed or self.ours <= allowed
        return not explained


def _operations(bindings: Iterable[Any], principal: str, how: Any) -> set[str]:
    return {
        each.operation.name
        for each in bindings
        if each.permission_type == how and each.principal in (principal, "User:*")
    }


def _covers(binding: Any, right: Right) -> bool:
    """Return whether an ACL is for the resource of *right*, on any host.

    A denial of a part of a prefix counts; one for a single host does not, as an allowance does.
    """
    if binding.restype.name != TYPES[right.kind]:
        return False
    denies = binding.permission_type == AclPermissionType.DENY
    if denies and binding.host != "*":
        return False
    if binding.resource_pattern_type == ResourcePatternType.PREFIXED:
        inside = right.name.startswith(binding.name)
        return inside or (denies and right.prefixed and binding.name.startswith(right.name))
    if binding.name == "*":
        return True
    if right.prefixed:
        return bool(denies and binding.name.startswith(right.name))
    return bool(binding.name == right.name)


def principal_of(config: Config) -> str | None:
    """Return the principal that brokers know this configuration's user by, if it is certain."""
    properties = config.kafka.properties("common")
    user = properties.get("sasl.username") or properties.get("sasl.user.name")
    return f"User:{user}" if user and config.kafka.mechanism != "OAUTHBEARER" else None


KEY = "kafka.common (rights)"


def check_rights(
    config: Config,
    roles: Sequence[str | None],
    asked: str | None,
    *,
    existing: Collection[str],
    apply: bool,
) -> tuple[list[str], list[Problem]]:
    """Return the ACLs that were made, and the rights that a principal lacks for *roles*.

    It is the *asked* one, or our user. No right to create *existing* topics is needed. With
    *apply*, missing ones are made first, if the brokers allow it. Raises `Stop`.
    """
    admin, ours = admin_client(config), principal_of(config)
    principal = asked or ours
    acls = _described(admin)
    if isinstance(acls, str):
        reported = acls and (asked or apply)
        return [], [_unseen(principal, acls, warning=asked is None)] if reported else []
    if principal is None:
        got = "our user's name at the brokers is not known: a certificate or a token has it"
        cure = "name it, such as --principal User:NAME"
        return [], [Problem("--principal", got, cure, warning=True)] if apply else []
    if principal in acls.supers or (principal == ours and acls.favours(principal)):
        return [], []
    wanted = [right for role in roles for right in rights_of(config, role)]
    missing = _missing(acls, principal, wanted, existing)
    made: list[str] = []
    makeable = [each for each in missing if not acls.denies(principal, each)]
    if apply and makeable and (made := _make(admin, principal, makeable)):
        deadline = time.monotonic() + SEEN_SECONDS
        while set(makeable) & set(missing) and time.monotonic() < deadline:
            time.sleep(LOOK_AGAIN_SECONDS)
            acls = replace(acls, bindings=_bindings(admin))
            missing = _missing(acls, principal, wanted, existing)
    return made, [
        _problem(config, principal, each, denied=acls.denies(principal, each)) for each in missing
    ]


def _unseen(principal: str | None, why: str, *, warning: bool) -> Problem:
    got = f"the ACLs of {principal or 'our user'} are not known: {why}"
    cure = "name a user with DESCRIBE on the cluster in kafka.common, and check again"
    return Problem("--principal", got, cure, warning=warning)


def _missing(
    acls: Acls, principal: str, wanted: Iterable[Right], existing: Collection[str]
) -> list[Right]:
    found = []
    for right in dict.fromkeys(wanted):
        needed = [each for each in right.operations if each != CREATE or right.name not in existing]
        if right.name.startswith("^"):  # a pattern of topics: no ACL is named like it
            continue
        if lacking := acls.lacks(principal, replace(right, operations=tuple(needed))):
            found.append(replace(right, operations=lacking))
    return found


def _described(admin: AdminClient) -> Acls | str:
    """Return all ACLs, or why there are none to be read; '' without an authoriser."""
    with asked_once(), kafka_errors("asking the brokers for ACLs"):
        cluster = admin.describe_cluster(
            include_authorized_operations=True, request_timeout=CALL_SECONDS
        ).result()
        # To a user without DESCRIBE on the cluster, the client reports no ACL, and no error.
        if AclOperation.DESCRIBE not in (cluster.authorized_operations or ()):
            return "the user of kafka.common lacks DESCRIBE on the cluster"
        settings = _broker_settings(admin, cluster.nodes[0].id)
    bindings = _bindings(admin)
    if not settings.get("authorizer.class.name", bindings):
        return ""
    ours = OWNED & {each.name for each in cluster.authorized_operations}
    supers = frozenset(each.strip() for each in settings.get("super.users", "").split(";"))
    return Acls(bindings, ours, settings.get(OPEN, "false") != "false", supers - {""})


def _bindings(admin: AdminClient) -> list[Any]:
    anything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    with asked_once(), kafka_errors("asking the brokers for ACLs"):
        bindings: list[Any] = admin.describe_acls(anything, request_timeout=CALL_SECONDS).result()
    return bindings


def _broker_settings(admin: AdminClient, broker: int) -> dict[str, str]:
    """Return the settings of a *broker*; {} if our user may not read them."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    try:
        answers = admin.describe_configs([resource], request_timeout=CALL_SECONDS)
        entries = answers[resource].result()
    except KafkaException:
        return {}
    return {name: entry.value or "" for name, entry in entries.items()}  # '': it is not shown


def _make(admin: AdminClient, principal: str, missing: Iterable[Right]) -> list[str]:
    """Make ACLs for the *missing* rights; return those that brokers accepted."""
    made: list[str] = []
    for right in missing:
        how = ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL
        bindings = [
            AclBinding(
                ResourceType[TYPES[right.kind]], right.name, how, principal, "*",
                AclOperation[each], AclPermissionType.ALLOW,
            )
            for each in right.operations
        ]  # fmt: skip
        with asked_once(), kafka_errors(f"making ACLs on {right.kind} {right.name}"):
            for future in admin.create_acls(bindings, request_timeout=CALL_SECONDS).values():
                try:
                    future.result()
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                        raise
                    return made
        made.append(f"{' and '.join(right.operations)} on {right.kind} {right.name}")
    return made


def _problem(config: Config, principal: str, right: Right, *, denied: bool) -> Problem:
    operations = " and ".join(right.operations)
    why = f", and {right.why}" if right.why else ""
    got = f"{principal} lacks {operations} on {right.kind} {right.name}{why}"
    cure = command_for(config, principal, right)
    if denied:
        got += ": an ACL denies it, so none can allow it"
        cure = f"see which ACL, and remove it: {' '.join(cure.split()[:3])} --list"
    return Problem(KEY, got, cure, warning=bool(right.why))


def is_of_forgetting(problem: Problem) -> bool:
    """Return whether it is the right to delete changelog records, the only one with a warning."""
    return problem.key == KEY and problem.warning


def command_for(config: Config, principal: str, right: Right) -> str:
    brokers = config.kafka.properties("common").get("bootstrap.servers", "HOST:PORT")
    operations = " ".join(f"--operation {each.title()}" for each in right.operations)
    how = " --resource-pattern-type prefixed" if right.prefixed else ""
    return (
        f"kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal "
        f"{quote(principal)} {operations} --{OPTIONS[right.kind]} {quote(right.name)}{how}"
    )
