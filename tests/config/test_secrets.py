"""A sentinel password must turn up nowhere but in what librdkafka is given."""

import io
import json
import logging

import pytest

from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config, read_config, read_settings
from streamfilter.process import logs
from streamfilter.stops import ConfigError
from tests.support.cases import cases

SENTINEL = "hunter2-S3NT1NEL"
PROPERTIES = (
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.jaas.config",
)


@cases("name", PROPERTIES)
def test_secret_properties_reach_librdkafka_and_nothing_that_is_printed(name):
    config = load_config((), {}, [f"kafka.common.{name}={SENTINEL}"])
    assert config.kafka.properties("producer")[name] == SENTINEL
    shown = [repr(config), str(config), json.dumps(config.masked()), repr(config.kafka)]
    shown += [config.model_dump_json(), f"{config.kafka.common}"]
    assert all(SENTINEL not in text for text in shown)
    assert config.secrets() == {SENTINEL}


def test_what_comes_from_a_file_is_a_secret_whatever_it_is_called(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SENTINEL)
    config = load_config((), {}, [f"kafka.common.client.id=${{file:{path}}}"])
    assert SENTINEL not in repr(config) + json.dumps(config.masked())
    assert config.kafka.properties("common")["client.id"] == SENTINEL


MISTAKES = (
    [f"kafka.common={{sasl.password: {SENTINEL}"],
    [f"kafka.common={{sasl.password: *{SENTINEL}}}"],
    [f"kafka.common={{sasl.password: !{SENTINEL} x}}"],
    [f"kafka.common={{sasl.password: [{SENTINEL}]}}"],
    [f"kafka.common={{sasl.password: {{a: {SENTINEL}}}}}"],
    [f"kafka.sasl.password={SENTINEL}"],
    [f"kafka.pasword={SENTINEL}"],
    [f"kafka={SENTINEL}"],
    [SENTINEL],
    [f"kafka.common.sasl.password=x${{{SENTINEL}}}"],
    ["similarity.threshold=${SECRET}"],
    ["http.port=${SECRET}"],
    ["kafka.common=${SECRET}"],
    ["input.topic=a ${SECRET}"],
    [f"kafka.common.transactional.id={SENTINEL}"],
)


@cases("overrides", MISTAKES)
def test_no_mistake_makes_an_error_quote_the_secret(overrides):
    for reading in (overrides, []):
        environment = {"SECRET": SENTINEL}
        if reading is overrides and overrides[0].startswith("kafka.common="):
            environment["STREAMFILTER_KAFKA__COMMON"] = overrides[0].partition("=")[2]
        found = read_config((), environment, reading).problems
        assert SENTINEL not in "\n".join(map(str, found)) + repr(found)
    assert read_config((), {"SECRET": SENTINEL}, overrides).problems


@cases("overrides", MISTAKES)
def test_no_file_makes_an_error_quote_the_secret(overrides, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(overrides[0].replace("=", ": "))
    with pytest.raises(ConfigError) as caught:
        load_config([path], {"SECRET": SENTINEL})
    assert SENTINEL not in str(caught.value) + repr(caught.value)


def test_what_pydantic_itself_would_print_is_kept_from_the_operator():
    settings = read_settings((), {}, [f"kafka.common={{sasl.password: [{SENTINEL}]}}"])
    with pytest.raises(ValueError, match="common") as caught:
        Config(**settings.values)
    assert SENTINEL not in str(caught.value)


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_log_masks_secrets_in_messages_fields_and_tracebacks(form):
    stream = io.StringIO()
    config = load_config((), {}, [f'kafka.common.sasl.password={SENTINEL}"\\é'])
    before = logging.getLogger().handlers[:], logging.getLogger().level
    logs.configure("debug", form, secrets=config.secrets(), stream=stream)
    try:
        logger = logging.getLogger("streamfilter.kafka")
        secret = config.kafka.properties("common")["sasl.password"]
        logger.warning("rdkafka said %s", secret, extra={"client": secret})
        try:
            raise ValueError({"sasl.password": secret})
        except ValueError:
            logger.exception("failed")
    finally:
        logging.getLogger().handlers[:], logging.getLogger().level = before
    written = stream.getvalue()
    assert SENTINEL not in written
    assert written.count(logs.MASK) >= 3
