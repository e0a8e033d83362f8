"""Turns librdkafka's refusal of a client's properties into a problem with its key and its cure.

librdkafka refuses properties when a client is created, without a network, with one sentence. The
sentence names the property, a missing other property, or a feature that the build lacks. Here it
becomes the configuration key and the value to set.
"""

import difflib
import os
import re
from collections.abc import Callable

from streamfilter.config.configuration import Config
from streamfilter.stops import Problem

MANUAL = "see librdkafka's CONFIGURATION.md"
_PREFIX = re.compile(r"^Failed to create [a-z ]+: ")
_MECHANISMS = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
_NAMES = """
    allow.auto.create.topics api.version.request.timeout.ms auto.commit.interval.ms
    auto.offset.reset batch.num.messages batch.size bootstrap.servers broker.address.family
    broker.address.ttl broker.version.fallback check.crcs client.dns.lookup client.id client.rack
    compression.codec compression.level compression.type connections.max.idle.ms
    coordinator.query.interval.ms debug delivery.timeout.ms enable.auto.commit enable.idempotence
    enable.metrics.push enable.partition.eof enable.sasl.oauthbearer.unsecure.jwt
    enable.sparse.connections enable.ssl.certificate.verification fetch.error.backoff.ms
    fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms
    group.id group.instance.id group.protocol group.protocol.type group.remote.assignor
    heartbeat.interval.ms https.ca.location https.ca.pem isolation.level linger.ms
    log.connection.close log_level max.in.flight.requests.per.connection max.partition.fetch.bytes
    max.poll.interval.ms message.copy.max.bytes message.max.bytes message.send.max.retries
    message.timeout.ms metadata.broker.list metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    partition.assignment.strategy partitioner plugin.library.paths queue.buffering.max.kbytes
    queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
    queued.min.messages receive.message.max.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.required.acks request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism sasl.mechanisms
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config
    sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
    sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password sasl.username
    security.protocol session.timeout.ms socket.connection.setup.timeout.ms socket.keepalive.enable
    socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes
    socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem ssl.certificate.location
    ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list
    ssl.endpoint.identification.algorithm ssl.engine.id ssl.engine.location ssl.key.location
    ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password ssl.providers
    ssl.sigalgs.list statistics.interval.ms sticky.partitioning.linger.ms
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse transaction.timeout.ms
"""
NAMES = tuple(_NAMES.split())  # that an operator may set: the nearest to a mistyped one is named

Explain = Callable[[Config, str, re.Match[str]], Problem]


def problem_of(config: Config, kind: str, said: str) -> Problem:
    """Return the problem in refused properties; *kind* is the client's map of them."""
    said = _PREFIX.sub("", said.strip())
    for pattern, explain in _EXPLAINED:
        if match := pattern.search(said):
            return explain(config, kind, match)
    return Problem(f"kafka.{kind}", said, MANUAL)


def _key(config: Config, kind: str, name: str) -> str:
    """Return the configuration path where the property *name* is set, or should be set."""
    own = kind != "common" and name in getattr(config.kafka, kind)
    return f"kafka.{kind if own else 'common'}.{name}"


def _unknown(config: Config, kind: str, match: re.Match[str]) -> Problem:
    nearest = difflib.get_close_matches(match[1], NAMES, n=1, cutoff=0.6)
    cure = f"did you mean {nearest[0]}?" if nearest else MANUAL
    return Problem(_key(config, kind, match[1]), "librdkafka has no such property", cure)


def _invalid(config: Config, kind: str, match: re.Match[str]) -> Problem:
    cures = {"security.protocol": "use plaintext, ssl, sasl_plaintext or sasl_ssl"}
    cure = cures.get(match[1], MANUAL)
    return Problem(_key(config, kind, match[1]), "librdkafka does not take this value", cure)


def _outside(config: Config, kind: str, match: re.Match[str]) -> Problem:
    key = _key(config, kind, match[1])
    return Problem(key, f"the value is outside of {match[2]}", "use a value in this range")


def _file(config: Config, kind: str, match: re.Match[str]) -> Problem:
    name, key = match[1], _key(config, kind, match[1])
    path = config.kafka.properties("consumer" if kind == "common" else kind).get(name, "")  # type: ignore[arg-type]  # one of the three
    if not os.access(path, os.R_OK):
        why = "cannot be read" if os.path.exists(path) else "does not exist"
        return Problem(key, f"{path} {why}", "name a file that this user can read")
    return Problem(key, f"librdkafka cannot use {path} ({match[2]})", "name a PEM file")


def _missing(config: Config, kind: str, match: re.Match[str]) -> Problem:
    key = _key(config, kind, match[1])
    return Problem(key, f"is missing, and {match[2]} needs it", f"set {key}")


def _password(config: Config, kind: str, _: re.Match[str]) -> Problem:
    given = config.kafka.properties("common")
    name = "sasl.password" if given.get("sasl.username") else "sasl.username"
    wanted = "sasl.username and sasl.password"
    return Problem(
        _key(config, kind, name), f"{config.kafka.mechanism} needs {wanted}", f"set {wanted}"
    )


def _kerberos(config: Config, kind: str, _: re.Match[str]) -> Problem:
    key = _key(config, kind, "sasl.mechanism")
    if not config.kafka.mechanism:
        got = "is missing; librdkafka's default is GSSAPI (Kerberos), which is not in this build"
        return Problem(key, got, f"set {key} to {_MECHANISMS}")
    cure = f"use {_MECHANISMS}, or a confluent-kafka that was built with Kerberos"
    return Problem(key, "GSSAPI (Kerberos) is not in this build of librdkafka", cure)


def _mechanism(config: Config, kind: str, match: re.Match[str]) -> Problem:
    cure = f"use {_MECHANISMS}"
    if match[1] == "AWS_MSK_IAM":
        cure = (
            "set sasl.mechanism: OAUTHBEARER, and kafka.oauth.command to a program that signs a "
            "token for MSK (config/README.md shows one)"
        )
    return Problem(
        _key(config, kind, "sasl.mechanism"), f"librdkafka does not know {match[1]}", cure
    )


def _jaas(config: Config, kind: str, _: re.Match[str]) -> Problem:
    key = _key(config, kind, "sasl.jaas.config")
    cure = "set sasl.mechanism, sasl.username and sasl.password instead"
    return Problem(key, "is for Java clients", cure)


_EXPLAINED: tuple[tuple[re.Pattern[str], Explain], ...] = (
    (re.compile(r'No such configuration property: "([^"]*)"'), _unknown),
    (re.compile(r'Invalid value .*for configuration property "([^"]*)"', re.DOTALL), _invalid),
    (
        re.compile(r'property "([^"]*)" value .* is outside allowed range (\S+)', re.DOTALL),
        _outside,
    ),
    (re.compile(r"^([a-z.]+\.location) failed: (.*)", re.DOTALL), _file),
    (re.compile(r"^`([a-z.]+)` is mandatory when `([^`]+)`"), _missing),
    (re.compile(r"sasl.username and sasl.password must be set"), _password),
    (re.compile(r"No provider for SASL mechanism GSSAPI"), _kerberos),
    (re.compile(r"Unsupported SASL mechanism: (\S+)"), _mechanism),
    (re.compile(r"Java JAAS configuration is not supported"), _jaas),
)
