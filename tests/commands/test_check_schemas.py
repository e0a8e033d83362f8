"""`check` looks whether text, id and fields are in the schema of what will be read."""

import json

import pytest

from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.preflight.schemas import check_schemas
from tests.documents import test_avro, test_protobuf
from tests.documents.registry_stub import Handler, url  # noqa: F401

AVRO = {"schema": json.dumps(test_avro.ARTICLE)}
PROTOBUF = {
    "schema": test_protobuf.ARTICLE,
    "schemaType": "PROTOBUF",
    "references": [{"name": "parts.proto", "subject": "parts", "version": 1}],
}
NEWEST = "/subjects/articles-value/versions/latest"


pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture(params=["avro", "protobuf"])
def settings(request, url):  # noqa: F811
    Handler.answers[NEWEST] = (200, AVRO if request.param == "avro" else PROTOBUF)
    parts = {"schema": test_protobuf.PARTS, "schemaType": "PROTOBUF"}
    Handler.answers["/subjects/parts/versions/1"] = (200, parts)
    return (f"input.format={request.param}", "input.topic=articles", f"input.registry.url={url}")


def found(*settings):
    problems = check_schemas(load_config((), {}, settings))
    return [(each.key, str(each), each.warning) for each in problems]


def test_what_is_there_is_no_problem(settings):
    for text in ("/text", "[/kind, /more/text]", "/paragraphs/*/text", "[/links/*, /text]"):
        assert found(*settings, f"input.text={text}") == []
    assert found(*settings, "input.id=key", "input.fields={/text: words, /id: exact}") == []


def test_what_no_value_will_have_is_reported_with_the_nearest_name(settings):
    ((key, said, warning),) = found(*settings, "input.text=/txt")
    assert (key, warning) == ("input.text", False)
    assert "there is no /txt in the newest schema of subject articles-value" in said
    assert "cure: did you mean /text? it has: " in said
    (broken,) = found(*settings, "input.id=/rate")
    assert "/rate is a number in the newest schema" in broken[1]
    (array,) = found(*settings, "input.text=/links")
    assert "/links" in array[1]
    some = found(*settings, "input.text=[/title, /text]")
    assert [(key, warning) for key, _, warning in some] == [("input.text", True)]
    several = found(*settings, "input.text=[/title, /lead]", "input.id=/uuid")
    assert [key for key, _, warning in several if not warning] == ["input.text"] * 2 + ["input.id"]


def test_a_map_may_have_any_key_and_a_recursive_schema_is_looked_into_as_deep_as_asked():
    map_ = {"type": "map", "values": ["null", "string"]}
    node = {"type": "record", "name": "N", "fields": [
        {"name": "next", "type": ["null", "N"]}, {"name": "labels", "type": map_}]}  # fmt: skip
    Handler.answers = {}
    deep = "/next" * 40 + "/labels/text"
    with open("node.avsc", "w") as file:
        json.dump(node, file)
    given = ("input.format=avro", "input.schema_file=node.avsc", "input.id=null")
    assert found(*given, f"input.text={deep}") == []
    (lacking,) = found(*given, "input.text=/next/next/text")
    assert "there is no /next/next/text in node.avsc" in lacking[1]


def test_a_subject_of_another_kind_or_none_is_reported(settings):
    other = (200, AVRO if "protobuf" in settings[0] else PROTOBUF)
    Handler.answers[NEWEST] = other
    ((key, said, _),) = found(*settings)
    assert (key, "it is of kind" in said) == ("input.format", True)
    ((key, said, warning),) = found(*settings, "input.topic=other")
    assert (key, warning) == ("input.registry.url", True)
    assert "there is no subject other-value" in said


def test_check_asks_the_registry_with_connect_and_tells_who_does_not_answer(settings, capsys):
    with EmbeddedBroker() as broker:
        broker.create_topics(dict.fromkeys(
            ("articles", "articles.unique", "articles.duplicates", "articles.dead-letter"), 1
        ))  # fmt: skip
        given = (*settings, f"kafka.common.bootstrap.servers={broker.bootstrap}", "input.text=/txt")
        arguments = [each for one in given for each in ("--set", one)]
        assert cli.main(["check", *arguments]) == 0
        assert not Handler.asked, "only with --connect"
        capsys.readouterr()
        assert cli.main(["check", "--connect", *arguments]) == 78
        assert "input.text: there is no /txt in the newest schema" in capsys.readouterr().out
        Handler.answers[NEWEST] = (503, {})
        assert cli.main(["check", "--connect", *arguments, "--set", "kafka.start_timeout=1s"]) == 75
        assert "input.registry.url: " in capsys.readouterr().out


def test_the_schema_of_a_file_is_looked_into_without_asking_anybody(capsys):
    with open("article.proto", "w") as file:
        file.write(test_protobuf.ARTICLE)
    given = ("input.format=protobuf", "input.schema_file=article.proto", "input.text=/txt")
    assert cli.main(["check", *(each for one in given for each in ("--set", one))]) == 78
    assert "there is no /txt in article.proto" in capsys.readouterr().out
