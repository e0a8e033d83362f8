"""What librdkafka refuses of a client is a problem of the configuration, in every verb."""

import ast

import pytest
from confluent_kafka import Consumer, KafkaException

from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.kafka.connection import clients
from streamfilter.kafka.connection.client_problems import NAMES
from streamfilter.stops import ConfigError, ExitCode
from tests.support.cases import cases
from tests.support.package_code import PACKAGE, package_nodes

MINE = {"kafka/connection/clients.py", "kafka/traffic.py"}
"""Who makes clients: the one constructor, and what works on a broker of our own."""
SASL = ("security.protocol=SASL_SSL",)
REFUSED = (
    # properties, the key that is named, what is said of it, a part of the cure
    (SASL, "sasl.mechanism", "is missing", "SCRAM-SHA-512"),
    ((*SASL, "sasl.mechanism=PLAIN"), "sasl.username", "needs sasl.username", "set sasl.username"),
    (
        (*SASL, "sasl.mechanism=PLAIN", "sasl.username=u"),
        "sasl.password",
        "needs sasl.username",
        "set sasl.username and sasl.password",
    ),
    ((*SASL, "sasl.mechanism=AWS_MSK_IAM"), "sasl.mechanism", "AWS_MSK_IAM", "oauth.command"),
    ((*SASL, "sasl.mechanism=GSSAPI"), "sasl.mechanism", "not in this build", "OAUTHBEARER"),
    (
        ("security.protocol=ssl", "ssl.ca.location=/no/such/ca.pem"),
        "ssl.ca.location",
        "/no/such/ca.pem does not exist",
        "name a file",
    ),
    (
        ("security.protocol=ssl", "ssl.certificate.location=/etc/hostname"),
        "ssl.certificate.location",
        "librdkafka cannot use /etc/hostname",
        "PEM",
    ),
    (("security.protocl=ssl",), "security.protocl", "no such property", "mean security.protocol?"),
    (("security.protocol=TLS",), "security.protocol", "does not take", "sasl_ssl"),
    (("socket.timeout.ms=7",), "socket.timeout.ms", "outside of 10..300000", "in this range"),
    (
        (*SASL, "sasl.mechanism=OAUTHBEARER", "sasl.oauthbearer.method=oidc"),
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.method=oidc needs it",
        "set kafka.common.sasl.oauthbearer.token.endpoint.url",
    ),
    (("sasl.jaas.config=x",), "sasl.jaas.config", "Java", "sasl.password"),
)
TOKENLESS = (*SASL, "sasl.mechanism=OAUTHBEARER")


@cases(("given", "key", "got", "cure"), REFUSED)
def test_a_property_that_is_refused_is_named_with_its_cure(given, key, got, cure):
    config = load_config((), {}, [f"kafka.common.{each}" for each in given])
    with pytest.raises(ConfigError) as error:
        clients.admin_client(config)
    (problem,) = error.value.problems
    assert problem.key == f"kafka.common.{key}"
    assert got in problem.got
    assert cure in problem.cure


def test_a_property_of_consumers_is_named_where_it_stands():
    config = load_config((), {}, ["kafka.consumer.fetch.min.byte=1"])
    (problem,) = clients.validate_properties(config)
    assert problem.key == "kafka.consumer.fetch.min.byte"
    assert problem.cure == "did you mean fetch.min.bytes?"


@pytest.mark.parametrize(
    "verb",
    [
        ["check", "--connect"],
        ["run"],
        ["peek"],
        ["demo", "--feed", "--seconds", "0"],
        ["demo", "--feed", "--seconds", "1"],
        ["init", "--topic", "a"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("given", [SASL, TOKENLESS], ids=["no mechanism", "no token"])
def test_every_verb_says_it_and_ends_with_78(verb, given, monkeypatch, tmp_path, capsys):
    """It said "this is a bug in streamfilter", with a traceback, and ended with 70."""
    monkeypatch.chdir(tmp_path)
    settings = ("input.topic=a", *(f"kafka.common.{each}" for each in given))
    options = [word for each in settings for word in ("--set", each)]
    if verb[0] == "init":  # has no --set
        options = ["--broker", "127.0.0.1:1"]
        for each in given:
            name, _, value = each.partition("=")
            monkeypatch.setenv(
                f"STREAMFILTER_KAFKA__COMMON__{name.upper().replace('.', '_')}", value
            )
    assert cli.main([*verb, *options]) == ExitCode.CONFIG
    said = "".join(capsys.readouterr())
    assert "kafka.common.sasl.mechanism" in said
    assert "bug" not in said


def test_a_bearer_without_a_source_of_tokens_is_reported_of_both_ways():
    with pytest.raises(ConfigError, match=r"(?s)no source of tokens.*oauth\.command.*oidc"):
        load_config((), {}, [f"kafka.common.{each}" for each in TOKENLESS])


def test_every_name_that_may_be_meant_is_known_to_librdkafka():
    unknown = "No such configuration property"
    assert [name for name in NAMES if unknown in refusal_of(name)] == []


def refusal_of(name: str) -> str:
    try:
        Consumer({"group.id": "x", name: "\x01"}).close()
    except KafkaException as error:
        return str(error.args[0].str())
    return ""


@pytest.mark.slow
def test_one_constructor_makes_all_clients():
    for path, nodes in package_nodes().items():
        if str(path.relative_to(PACKAGE)) in MINE:
            continue
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        made = {each.id for each in calls if isinstance(each, ast.Name)}
        assert not made & {"AdminClient", "Consumer", "Producer"}, path
