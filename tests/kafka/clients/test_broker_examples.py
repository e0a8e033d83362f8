"""The examples in config/brokers: each is read beside a user's file, mTLS with a real broker."""

import json
from typing import Any

import pytest
import yaml

from deploy.local.real import RealKafka
from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.stops import ExitCode
from tests.support.secure import Authority
from tests.support.stage import Stage
from tests.support.texts import ROOT
from tests.support.topics import Input

EXAMPLES = ROOT / "config" / "brokers"
LISTENER = "listener.name.proxied."


def example(name: str) -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())["kafka"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_a_configuration_beside_the_starter(path):
    config = load_config([ROOT / "config" / "streamfilter.yaml", path])
    assert config.kafka.properties("common").items() >= example(path.stem)["common"].items()


@pytest.mark.slow(40)
def test_a_filter_with_a_certificate_works_and_without_one_it_is_refused(forge, tmp_path, capsys):
    authority = Authority.made(tmp_path)
    ours = authority.issue("filter").with_suffix(".key")
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:SSL,CONTROLLER:PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:$port,PROXIED://127.0.0.1:$proxied_port",
        f"{LISTENER}ssl.client.auth": "required",
        f"{LISTENER}ssl.keystore.type": "PEM",
        f"{LISTENER}ssl.keystore.location": str(authority.issue("broker")),
        f"{LISTENER}ssl.truststore.type": "PEM",
        f"{LISTENER}ssl.truststore.location": str(authority.certificate),
    }
    with RealKafka(properties=properties) as kafka:
        stage = Stage(kafka.bootstrap, tmp_path, launch=forge.launch)
        brokers = example("mtls")
        brokers["common"] |= {
            "bootstrap.servers": f"127.0.0.1:{kafka.nodes[0].ports.proxied}",
            "ssl.ca.location": str(authority.certificate),
            "ssl.certificate.location": str(ours.with_suffix(".crt")),
            "ssl.key.location": str(ours),
        }
        brokers["start_timeout"] = "10s"
        configuration = stage.configuration(kafka=brokers)
        assert cli.main(["check", "--connect", "--config", str(configuration)]) == ExitCode.OK
        stage.produce([Input(json.dumps({"id": "0", "text": "a b c d"}).encode())])
        process = stage.start(kafka=brokers)
        stage.drain(process)
        assert process.terminate() == 0
        assert len(stage.outputs()["unique"]) == 1
        for name in ("ssl.certificate.location", "ssl.key.location"):
            del brokers["common"][name]
        configuration = stage.configuration(kafka=brokers)
        capsys.readouterr()
        assert cli.main(["check", "--connect", "--config", str(configuration)]) != ExitCode.OK
        # The broker's alert may be lost with the connection; the cure is the same.
        assert "kafka.common.ssl.certificate.location" in capsys.readouterr().out
