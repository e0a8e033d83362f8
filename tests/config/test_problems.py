"""Every mistake is found in one run, at its key, with its cure; exit code 78."""

import re
from pathlib import Path

import pytest
import yaml

from streamfilter.assembly import WINDOW_DOCUMENTS, retention_for
from streamfilter.config.checks import REFUSED_PROPERTIES
from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config, read_config
from streamfilter.config.reference import keys
from streamfilter.matching.blocking.retention import Retention
from streamfilter.stops import ConfigError, ExitCode, Problem
from tests.support.cases import cases


def problems_of(*overrides: str, environment: dict[str, str] | None = None) -> list[Problem]:
    return list(read_config((), environment or {}, overrides).problems)


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


def test_all_problems_of_all_sources_come_at_once(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(
        "similarity: {threshold: 9.0, treshold: 1, bands: 20, rows: 8}\n"
        "batch: {latency: 20}\n"
        "inptu: {topic: x}\n"
        "kafka: {consumer: {isolation.level: read_uncommitted}}\n"
    )
    environment = {"STREAMFILTER_HTTP__PORT": "many", "STREAMFILTER_HTPP__PORT": "1"}
    with pytest.raises(ConfigError) as caught:
        load_config([path, Path("absent.yaml")], environment, ["nonsense", "log.level=loud"])
    assert {problem.key for problem in caught.value.problems} == {
        "absent.yaml",
        "STREAMFILTER_HTPP__PORT",
        "--set number 1",
        "similarity.threshold",
        "similarity.treshold",
        "batch.latency",
        "inptu",
        "http.port",
        "log.level",
        "kafka.consumer.isolation.level",
    }
    assert caught.value.exit_code == ExitCode.CONFIG == 78
    assert all(problem.cure for problem in caught.value.problems)


def test_an_impossible_shape_is_reported_with_what_the_possible_ones_find():
    problem = only(problems_of("similarity.bands=20", "similarity.rows=8"))
    assert str(problem) == (
        "similarity.bands: 20 bands x 8 rows = 160 slots, but similarity.slots is 128\n"
        "    cure: 16 x 8 fits, but finds only .947 of the pairs at .80; 16 x 6 finds .992"
    )


@cases(
    "overrides",
    [
        ("similarity.slots=4", "similarity.threshold=0.1"),
        ("similarity.recall=0.9999999", "similarity.threshold=0.05"),
        ("similarity.rows=200",),
        ("similarity.bands=200",),
        ("similarity.bands=130", "similarity.rows=200"),
    ],
)
def test_a_recall_or_shape_out_of_reach_is_refused_not_planned_badly(overrides):
    assert only(problems_of(*overrides)).key.startswith("similarity.")


def test_a_typing_mistake_is_answered_with_the_nearest_key():
    problem = only(problems_of("similarity.treshold=0.9"))
    assert problem.got == "unknown key"
    assert problem.cure.startswith("did you mean threshold? known keys here: threshold, shingle")


def test_a_typing_mistake_in_a_nested_section_names_the_keys_there():
    problem = only(problems_of("similarity.shingle.sise=2"))
    assert problem.key == "similarity.shingle.sise"
    assert problem.cure.startswith("did you mean size? known keys here: kind, size, token_bytes")


@cases(
    ("name", "key"),
    [
        ("STREAMFILTER_INPUT_TOPIC", "STREAMFILTER_INPUT_TOPIC"),
        ("STREAMFILTER_INPTU__TOPIC", "STREAMFILTER_INPTU__TOPIC"),
        ("STREAMFILTER_INPUT__TOPICK", "input.topick"),
        ("STREAMFILTER_KAFKA", "kafka"),
        ("STREAMFILTER_INPUT__", "STREAMFILTER_INPUT__"),
    ],
)
def test_a_variable_that_sets_nothing_is_a_problem(name, key):
    assert only(problems_of(environment={name: "x"})).key == key


def test_what_kubernetes_puts_into_the_environment_is_left_alone():
    environment = {
        "STREAMFILTER_SERVICE_HOST": "10.0.0.1",
        "STREAMFILTER_SERVICE_PORT_METRICS": "9464",
        "STREAMFILTER_PORT": "tcp://10.0.0.1:9464",
        "STREAMFILTER_PORT_9464_TCP_ADDR": "10.0.0.1",
    }
    assert problems_of(environment=environment) == []


@cases("name", sorted(REFUSED_PROPERTIES))
@cases("client", ["common", "consumer", "producer"])
def test_a_property_that_breaks_a_promise_is_refused_by_name(client, name):
    problem = only(problems_of(f"kafka.{client}.{name}=1"))
    assert problem.key == f"kafka.{client}.{name}"
    assert problem.cure == REFUSED_PROPERTIES[name]


def test_properties_that_break_nothing_pass():
    overrides = (
        "kafka.consumer.partition.assignment.strategy=range",
        "kafka.consumer.group.instance.id=pod-0",
        "kafka.producer.compression.type=zstd",
        "kafka.common.socket.timeout.ms=9000",
    )
    assert problems_of(*overrides) == []


@cases(
    ("brokers", "number"),
    [("http://kafka:9092", 1), ("a:9092,kafka://b:9092", 2), ("a:abc", 1), ("a:99999", 1),
     ("a 9092", 1), ("a:0", 1)],
)  # fmt: skip
def test_an_address_of_which_librdkafka_makes_another_is_refused(brokers, number):
    problem = only(problems_of(f"kafka.common.bootstrap.servers={brokers}"))
    assert problem.key == "kafka.common.bootstrap.servers"
    assert problem.got.startswith(f"number {number} of")


@cases(
    "brokers",
    ["kafka", "a:1, b:2", "PLAINTEXT://a:9092", "sasl_ssl://a:9092/", "[::1]:9092", "fe80::1", ""],
)
def test_an_address_that_librdkafka_takes_passes(brokers):
    assert problems_of(f'kafka.common={{"bootstrap.servers": "{brokers}"}}') == []


@pytest.mark.parametrize(
    "role", ["output.unique", "output.duplicates", "output.dead_letter", "index.changelog"]
)
def test_no_topic_serves_two_roles(role):
    problem = only(problems_of(f"{role}=documents"))
    assert problem.key == role
    assert "input.topic" in problem.got


@cases(
    "override",
    [
        "input.text=/items/0",
        "input.text=/items/-",
        "input.text=text",
        "input.text=/a~3",
        "index.scope_field=tenant",
        "index.scope_field=/tenants/*",
        "index.scope_field=/text/tenant",
        "index.scope_field=/id/tenant",
        "input.id=/text",
        "input.id=/text/id",
        "input.id=text",
        "input.id=header:",
        "input.id=/items/*/id",
        "input.text=[]",
        "input.text=[/title, body]",
        "input.text=[/title, /title/main]",
        "input.text=[/a/*/b, /a/*]",
        "input.text=/id/text",
        "verify.agree_on=[/text/a]",
        "verify.also_same=[/id/a]",
        "input.text=value",
        "input.format=avro",
        "input.schema_file=a.avsc",
        "input.framing=magic",
        "input.start=yesterday",
        "input.topic=a b",
        "input.topic=..",
        "output.unique=",
        "index.retention=0",
        "index.retention=0s",
        "index.retention=-1d",
        "index.retention=30",
        "index.retention=500ms",
        "index.retention=36501d",
        "index.retention=forever",
        "index.retention=true",
        "index.documents_max=0",
        "index.documents_max=-1",
        "index.documents_max=999",
        "index.documents_max=1099511627776",
        "index.documents_max=many",
        "similarity.threshold=nan",
        "similarity.recall=1",
        "similarity.shingle.size=0",
        "batch.bytes=8MiB/s",
        "batch.bytes=-1",
        "batch.latency=20",
        "batch.latency=2h",
        "kafka.session_timeout=1h",
        "kafka.common=[]",
        "kafka.group=",
        "http.port=70000",
        "http.stalled_after=0",
        "limits.depth=513",
        "limits.document=2Gi",
        "limits.dead_letter_share=1.5",
        "memory.memtable=1",
    ],
)
def test_a_value_out_of_its_bounds_is_one_problem_with_a_cure(override):
    problem = only(problems_of(override))
    assert problem.key.startswith(override.split("=")[0].split(".")[0])
    assert problem.got
    assert problem.cure


def test_a_reference_that_leads_nowhere_is_a_problem_at_its_key():
    problem = only(problems_of("kafka.group=${NO_SUCH_TEAM}"))
    assert (problem.key, problem.got) == (
        "kafka.group",
        "${NO_SUCH_TEAM} is not set in the environment",
    )
    assert only(problems_of("kafka.group=${file:/no/such/file}")).key == "kafka.group"
    assert only(problems_of("kafka.group=${}")).key == "kafka.group"


def test_a_problem_does_not_drag_others_behind_it():
    problems = problems_of("similarity.slots=lots", "similarity.bands=100", "similarity.rows=9")
    assert only(problems).key == "similarity.slots"


def test_a_section_that_is_no_mapping_is_one_problem(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("batch: 7\n")
    problem = only(list(read_config([path], {}).problems))
    assert problem.key == "batch"
    assert "expected a mapping" in problem.got


def test_the_settings_that_are_right_are_kept_beside_the_wrong_ones():
    reading = read_config((), {}, ["batch.documents=7", "batch.bytes=many"])
    assert reading.config.batch.documents == 7
    assert reading.config.batch.bytes == load_config((), {}).batch.bytes


def test_the_only_retention_of_before_is_still_one() -> None:
    """The reference configuration said so, and a copy of it must start after an upgrade."""
    assert problems_of("index.retention=unlimited") == []
    config = read_config((), {}, ["index.retention=unlimited"]).config
    assert not retention_for(config).limited


def test_how_much_is_remembered_is_read_as_it_is_written() -> None:
    wanted = ["index.retention=36h", "index.documents_max=5000000"]
    config = read_config((), {}, wanted).config
    assert retention_for(config) == Retention(
        documents=5_000_000, time=36 * 3_600_000, least=WINDOW_DOCUMENTS
    )
    assert config.index.model_dump(mode="json")["retention"] == "36h"
    problem = only(problems_of("index.retention=0"))
    assert "between 1s and 36500d, such as 30d" in f"{problem.got} {problem.cure}"


@pytest.mark.parametrize(
    ("value", "got", "cure"),
    [
        ("[a, b]", "a list", "several brokers are a:9092,b:9092"),
        ("{servers: a}", "a mapping", "the whole name before one colon"),
        ("~", "null", "stands in quotes"),
    ],
)
def test_a_property_that_is_no_text_is_refused_with_what_to_write(value, got, cure, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(f"kafka: {{common: {{bootstrap.servers: {value}}}}}\n")
    (problem,) = read_config([path], {}).problems
    assert problem.got == f"got {got}; expected a text, a number, true or false"
    assert cure in problem.cure


def test_a_password_in_the_environment_may_read_null():
    variables = {"STREAMFILTER_KAFKA__COMMON__SASL_PASSWORD": "null"}
    reading = read_config((), variables)
    assert reading.config.kafka.properties("common")["sasl.password"] == "null"


@cases("group", ["a b", "team/news", "ä", "g" * 200])
@cases("cluster", ["true", "false"])
def test_a_group_after_which_no_topic_can_be_named_is_refused_before_a_broker_is(group, cluster):
    reading = read_config((), {}, [f"kafka.group={group}", f"cluster.enabled={cluster}"])
    refused = {each.key for each in reading.problems}
    assert refused == (set() if group.startswith("g") else {"kafka.group"})
    assert not read_config((), {}, ["kafka.group=a b", "index.changelog=c"]).problems


@cases(
    ("override", "words"),
    [
        ("http.port=abc", "got 'abc'; expected a whole number"),
        ("similarity.threshold=high", "got 'high'; expected a number"),
        ("similarity.normalise.digits=maybe", "got 'maybe'; expected true or false"),
        ("similarity.shingle.languages=en", "got 'en'; expected a list, such as [a, b]"),
        ("similarity.shingle.languages=[]", "got a list; expected a list that is not empty"),
        ("similarity.bands=2.5", "got '2.5'; expected a whole number"),
        ("index.path=[a]", "got a list; expected a path"),
        ('kafka.group=""', "got ''; expected a text that is not empty"),
    ],
)
def test_a_type_is_called_as_a_person_calls_it(override, words):
    (problem,) = read_config((), {}, [override]).problems
    assert problem.got == words


WRONG = [[], {}, 5, -5, 2.5, True, None, "x y", "", float("inf"), "a\nb", 10**30]


@pytest.mark.slow
@pytest.mark.parametrize("section", Config.model_fields)
def test_no_setting_given_anything_answers_in_the_words_of_a_library(section, tmp_path):
    file = tmp_path / "config.yaml"
    for key in (key for key in keys() if key.startswith(f"{section}.")):
        for value in WRONG:
            inside: object = value
            for step in reversed(key.split(".")):
                inside = {step: inside}
            file.write_text(yaml.safe_dump(inside))
            for problem in read_config((file,), {}, []).problems:
                assert not re.search(
                    r"class|valid|Input|Tuple|String|should|pydantic", problem.got
                ), f"{key}: {value}"


SEVERAL = ("output.unique=u", "output.duplicates=d", "output.dead_letter=l")


@cases(
    ("settings", "key", "said"),
    [
        (["input.topics=[a]", "input.topic=b"], "input.topics", "input.topic is set, too"),
        (["input.topics=[a, a]"], "input.topics", "it has a topic twice"),
        (["input.topics=[a]", "index.scope=partition"], "input.topics", "of one topic"),
        (["input.topics=[a]", "cluster.enabled=true"], "cluster.enabled", "one input.topic"),
        (["index.scope=partition", "cluster.enabled=true"], "cluster.enabled", "needs no judge"),
        (["input.topics=[u]"], "output.unique", "its own output would be read again"),
        (["input.topics=['d*']"], "output.duplicates", "'d' fits input.topics"),
        (["input.topics=['*.changelog']"], "index.changelog", "fits input.topics"),
        (["input.topics=[a, b c]"], "input.topics", "got 'b c'"),
        (["input.topics=a"], "input.topics", "expected a list"),
        (["input.topics=['']"], "input.topics", "expected a topic name"),
    ],
)
def test_what_a_list_of_topics_cannot_be_is_named(settings: list[str], key: str, said: str):
    problem = only(problems_of(*SEVERAL, *settings))
    assert problem.key == key
    assert said in str(problem)


def test_several_topics_have_no_default_outputs():
    keys = [problem.key for problem in problems_of("input.topics=[a]")]
    assert keys == ["output.dead_letter", "output.duplicates", "output.unique"]
    assert problems_of(*SEVERAL, "input.topics=[a, 'news.*']") == []
