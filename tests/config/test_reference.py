"""The files in config/ are true: the reference equals the code, and both load."""

from pathlib import Path
from typing import Literal, get_args, get_origin

from pydantic import BaseModel

from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config
from streamfilter.config.problems import manual
from streamfilter.config.reference import reference
from streamfilter.config.yaml_file import parse_yaml

FILES = Path(__file__).parents[2] / "config"


def test_the_reference_equals_the_code():
    again = "python -m streamfilter.config.reference > config/reference.yaml"
    assert (FILES / "reference.yaml").read_text() == reference(), again


def test_the_reference_holds_every_key_and_reads_back_as_the_defaults():
    assert load_config([FILES / "reference.yaml"], {}) == load_config((), {})
    assert keys(parse_yaml(reference())) >= set(keys_of(Config))


def test_every_setting_has_its_reason_in_a_sentence():
    def reasons(model: type[BaseModel]) -> list[str]:
        fields = model.model_fields
        nested = [type(f.default) for f in fields.values() if isinstance(f.default, BaseModel)]
        texts = manual(model)
        own = [texts[n] for n, f in fields.items() if not isinstance(f.default, BaseModel)]
        return own + [reason for each in nested for reason in reasons(each)]

    assert all(reason.endswith(".") for reason in reasons(Config))


def test_the_file_to_start_from_is_a_whole_configuration():
    config = load_config([FILES / "streamfilter.yaml"], {})
    assert config == load_config((), {})
    other = {"KAFKA_BOOTSTRAP_SERVERS": "broker:9092"}
    config = load_config([FILES / "streamfilter.yaml"], other)
    assert config.kafka.properties("common")["bootstrap.servers"] == "broker:9092"


def keys(values: object, path: str = "") -> set[str]:
    if not isinstance(values, dict):
        return {path}
    return {path}.union(*(keys(each, f"{path}.{key}") for key, each in values.items()))


def keys_of(model: type[BaseModel], path: str = "") -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        found.append(f"{path}.{name}")
        if isinstance(field.default, BaseModel):
            found += keys_of(type(field.default), f"{path}.{name}")
    return found


def test_every_setting_can_be_set_to_something_else():
    """A setting with one value promises what is not built."""
    sections = [Config]
    for section in sections:
        for name, field in section.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                sections.append(field.annotation)
            elif get_origin(field.annotation) is Literal:
                assert len(get_args(field.annotation)) > 1, f"{section.__name__}.{name}"
