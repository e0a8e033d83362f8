"""The Helm chart: made from kustomize's manifests, and real helm renders what kubectl does."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from deploy.kubernetes import chart
from deploy.local.jars import cache_directory
from streamfilter.config.loading import load_config
from tests.deploy.test_kubernetes import (
    BASE,
    CLUSTER,
    OPERATOR,
    PRODUCTION,
    rendered,
    validate,
    with_secrets,
)  # fmt: skip
from tests.deploy.tools import accepted, tool

HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
HASH = re.compile(r"\bstreamfilter-[a-z0-9]{10}\b")  # by kustomize, behind the ConfigMap's name


def helm(*arguments: str) -> str:
    """Return what helm printed; without it, it is built once from the Go module proxy."""
    directory = cache_directory() / f"helm-{HELM.rpartition('@')[2]}"
    found = shutil.which("helm") or str(directory / "helm")
    if not Path(found).exists():
        go = tool("go", package="golang-go")
        given = {**os.environ, "GOBIN": str(directory), "CGO_ENABLED": "0"}
        subprocess.run([go, "install", HELM], env=given, check=True)
    return accepted([found, *arguments])


def templated(*values: str, files: Sequence[Path] = (), name: str = "streamfilter") -> list[dict]:
    given = [f"--set={each}" for each in values] + [f"--values={each}" for each in files]
    text = helm("template", name, str(chart.CHART), *given)
    return [document for document in yaml.safe_load_all(text) if document]


def by_name(found: list[dict]) -> dict:
    """Return the documents without what only one of the two ways to render has."""
    text = HASH.sub("streamfilter", yaml.safe_dump(found))
    plain = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load(text)}
    for document in plain.values():
        if document["kind"] == "StatefulSet":
            document["spec"]["template"]["metadata"].pop("annotations", None)
        if document["kind"] == "ConfigMap":
            document["data"] = {name: yaml.safe_load(t) for name, t in document["data"].items()}
        if document["kind"] == "PrometheusRule":  # kubectl writes folded lines anew
            for rule in (each for group in document["spec"]["groups"] for each in group["rules"]):
                rule["expr"] = " ".join(rule["expr"].split())
    return plain


def test_the_chart_is_what_the_manifests_make():
    for name, text in chart.files().items():
        there = (chart.CHART / name).read_text(encoding="utf-8")
        assert there == text, "run `python -m deploy.kubernetes`"
    names = {str(path.relative_to(chart.CHART)) for path in chart.CHART.rglob("*.*")}
    assert names == set(chart.files())


def test_all_manifests_have_the_resources_that_are_one_value_of_the_chart():
    found = [
        each["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        for path in (BASE / "statefulset.yaml", CLUSTER / "edge.yaml")
        for each in yaml.safe_load_all(path.read_text())
        if each["kind"] == "StatefulSet"
    ]
    assert (
        found[0]
        == found[1]
        == yaml.safe_load((chart.CHART / "values.yaml").read_text())["resources"]["limits"]
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("directory", "values"),
    [(BASE, []), (OPERATOR, ["operator=true"]), (CLUSTER, ["edges=3"])],
    ids=lambda each: getattr(each, "name", ""),
)
def test_helm_renders_what_kubectl_does(directory, values):
    assert by_name(templated(*values)) == by_name(rendered(directory))


@pytest.mark.long
def test_helm_renders_production_with_the_same_configuration(tmp_path):
    mine = tmp_path / "mine.yaml"
    configuration = yaml.safe_load((PRODUCTION / "values.yaml").read_text())
    values = {"kafkaSecret": "streamfilter-kafka", "operator": True, "networkPolicy": True,
              "storage": "50Gi", "configuration": configuration}  # fmt: skip
    mine.write_text(yaml.safe_dump(values))
    ours = by_name(templated(files=[mine]))
    theirs = by_name(rendered(PRODUCTION))
    key = ("ConfigMap", "streamfilter")
    configs = []
    for found in (ours, theirs):
        files = {name: yaml.safe_dump(each) for name, each in found.pop(key)["data"].items()}
        order = [n for n in ("streamfilter.yaml", "secured.yaml", "values.yaml") if n in files]
        paths = with_secrets(order, files, tmp_path, "/run/secrets/kafka")
        configs.append(load_config(paths, {"POD_NAME": "p"}))
    assert configs[0] == configs[1]
    for found in (ours, theirs):  # the three files are two, because helm lays values over the base
        pod = found["StatefulSet", "streamfilter"]["spec"]["template"]["spec"]
        arguments = pod["containers"][0]["args"]
        pod["containers"][0]["args"] = [each for each in arguments if "values" not in each][:5]
    assert ours == theirs


@pytest.mark.long
def test_helm_accepts_the_chart_and_all_values_of_it_make_valid_manifests(tmp_path):
    assert "0 chart(s) failed" in helm("lint", "--strict", str(chart.CHART))
    values = ["name=news", "image.repository=registry.example/streamfilter", "image.tag=2",
              "edges=2", "operator=true", "networkPolicy=true", "kafkaSecret=s", "replicas=3",
              "storageClassName=fast", "pod.nodeSelector.disk=ssd", "storage=1Ti",
              "resources.limits.memory=4Gi", "configuration.input.topic=news"]  # fmt: skip
    found = templated(*values, name="release")
    for document in found:
        validate(document)
        assert document["metadata"]["name"].startswith("news")
    text = yaml.safe_dump(found)
    assert "registry.example/streamfilter:2" in text
    selected = [each for each in re.findall("name: streamfilter.*", text) if "recorded" not in each]
    assert selected == []
    assert {each["metadata"]["name"] for each in templated(name="other")} == {"other"}


@pytest.mark.long
def test_a_value_that_does_not_exist_is_refused_by_name():
    with pytest.raises(AssertionError, match="replica"):
        templated("replica=3")
    with pytest.raises(AssertionError, match="edges"):
        templated("edges=many")


@pytest.mark.long
def test_another_configuration_is_a_rollout():
    sums = set()
    for topic in ("a", "b", "b"):
        found = templated(f"configuration.input.topic={topic}")
        (pods,) = (each for each in found if each["kind"] == "StatefulSet")
        sums.add(pods["spec"]["template"]["metadata"]["annotations"]["checksum/configuration"])
    assert len(sums) == 2
