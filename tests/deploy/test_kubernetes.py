"""The manifests: every one of them is validated, none by a warning that no one reads.

Kubernetes' own kinds by its schemas, strictly. Those of others have none in the validator:
PrometheusRule is a rules file in a wrapper, which promtool checks. PodMonitor has a closed schema
of what we use of it. Kustomization is held to the files beside it. Any other kind fails.
"""

import json
import re
import shutil
import tempfile
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

import streamfilter
from deploy.kubernetes.__main__ import MANIFEST, manifest
from streamfilter.config.loading import load_config
from tests.deploy.tools import accepted, tool
from tests.support.texts import TEXTS

DIRECTORY = MANIFEST.parents[1]
BASE, OPERATOR = DIRECTORY / "base", DIRECTORY / "operator"
SECURED, NETWORK, PRODUCTION, CLUSTER = (
    DIRECTORY / name for name in ("secured", "network", "production", "cluster")
)
DIRECTORIES = [BASE, OPERATOR, SECURED, NETWORK, PRODUCTION, CLUSTER]
APPLIED = [BASE, OPERATOR, PRODUCTION, CLUSTER]
"""What `kubectl apply -k` takes; the others are components of a kustomization."""
ROOT = DIRECTORY.parents[1]
CONFIGURATION = "streamfilter.yaml"
CONFIGURATIONS = [BASE / CONFIGURATION, SECURED / "secured.yaml", PRODUCTION / "values.yaml"]
"""In the order in which `run` is given them by the production kustomization."""
FILES = [path for path in sorted(DIRECTORY.rglob("*.yaml")) if path not in CONFIGURATIONS]
PODMONITOR = json.loads((Path(__file__).parent / "podmonitor.schema.json").read_text())
KUSTOMIZATION_KEYS = {"apiVersion", "kind", "labels", "configMapGenerator", "images", "resources",
                      "components", "patches", "replacements"}  # fmt: skip
KUSTOMIZE = {
    "Kustomization": "kustomize.config.k8s.io/v1beta1",
    "Component": "kustomize.config.k8s.io/v1alpha1",
}
OF_OTHERS = "monitoring.coreos.com"
VERSION = kubernetes_validate.latest_version()


def documents(path: Path) -> list[dict]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def loaded(name: str) -> dict:
    (path,) = (path for path in FILES if path.name == name)
    (document,) = documents(path)
    return document


def rendered(directory: Path) -> list[dict]:
    """Return what `kubectl apply -k` would send."""
    kubectl = tool("kubectl", package="kubernetes-client")
    text = accepted([kubectl, "kustomize", str(directory)])
    return [document for document in yaml.safe_load_all(text) if document]


def validate(document: dict) -> None:
    """Raise unless *document* was validated: also when no one knows its kind."""
    match document["kind"]:
        case "PodMonitor":
            jsonschema.validate(document, PODMONITOR)
        case "PrometheusRule":
            _check_rules(document)
        case "Kustomization" | "Component":
            _check_kustomization(document)
        case _:
            kubernetes_validate.validate(document, VERSION, strict=True)


def _check_rules(document: dict) -> None:
    assert document.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert document["apiVersion"] == "monitoring.coreos.com/v1"
    promtool = tool("promtool", package="prometheus")
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        yaml.safe_dump(document["spec"], file)
        file.flush()
        accepted([promtool, "check", "rules", file.name])


def _check_kustomization(document: dict) -> None:
    """Its files are held to it by the test of the directories."""
    assert document.keys() <= KUSTOMIZATION_KEYS
    assert document["apiVersion"] == KUSTOMIZE[document["kind"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_manifest_is_validated(path):
    assert documents(path)
    for document in documents(path):
        validate(document)


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: path.name)
def test_a_kustomization_names_every_file_beside_it(directory):
    (kustomization,) = documents(directory / "kustomization.yaml")
    mine = {path.name for path in directory.iterdir()} - {"kustomization.yaml"}
    named = {name for name in kustomization.get("resources", ()) if not name.startswith("../")}
    for generated in kustomization.get("configMapGenerator", ()):
        named |= set(generated["files"])
    assert named == mine


@pytest.mark.parametrize("directory", APPLIED, ids=lambda path: path.name)
def test_what_kustomize_renders_is_valid(directory):
    for document in rendered(directory):
        validate(document)


def test_the_base_needs_no_operator():
    """With PodMonitor and PrometheusRule in it, `apply` failed in part on a plain cluster."""
    assert not [each for each in rendered(BASE) if OF_OTHERS in each["apiVersion"]]
    watched = [each["kind"] for each in rendered(OPERATOR) if OF_OTHERS in each["apiVersion"]]
    assert sorted(watched) == ["PodMonitor", "PrometheusRule"]
    assert len(rendered(OPERATOR)) == len(rendered(BASE)) + len(watched)


def test_production_has_brokers_topics_and_secrets_by_values_and_a_network_policy(tmp_path):
    found = rendered(PRODUCTION)
    assert "NetworkPolicy" in {each["kind"] for each in found}
    (stateful,) = (each for each in found if each["kind"] == "StatefulSet")
    (files,) = (each["data"] for each in found if each["kind"] == "ConfigMap")
    pod = stateful["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    given = [Path(each).name for each in container["args"] if each.startswith("/etc/")]
    assert given == [path.name for path in CONFIGURATIONS]
    assert files == {path.name: path.read_text() for path in CONFIGURATIONS}
    secret = {"secretName": "streamfilter-kafka", "defaultMode": 0o440}
    assert {"name": "kafka", "secret": secret} in pod["volumes"]
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    (mount,) = (each for each in container["volumeMounts"] if each["name"] == "kafka")
    assert mount["readOnly"]
    config = load_config(
        with_secrets(given, files, tmp_path, mount["mountPath"]), {"POD_NAME": "p"}
    )
    common = config.kafka.properties("common")
    assert (config.input.topic, common["security.protocol"]) == ("news", "SASL_SSL")
    assert (common["sasl.username"], common["sasl.password"]) == ("username!", "password!")
    assert config.kafka.properties("consumer")["group.instance.id"] == "p"
    assert "password!" not in json.dumps(config.masked())


def with_secrets(
    names: list[str], files: dict[str, str], directory: Path, mounted: str
) -> list[Path]:
    """Write configurations whose secrets are in *directory*, not where they are *mounted*."""
    for secret in ("username", "password"):
        (directory / secret).write_text(f"{secret}!")
    for name in names:
        (directory / name).write_text(files[name].replace(mounted, str(directory)))
    return [directory / name for name in names]


def test_the_network_policy_lets_in_what_scrapes_and_out_to_names_and_brokers(pod):
    spec = loaded("networkpolicy.yaml")["spec"]
    labels = loaded("statefulset.yaml")["spec"]["template"]["metadata"]["labels"]
    assert selects(spec["podSelector"], labels)
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    (inward,) = spec["ingress"]
    assert [port["port"] for port in inward["ports"]] == [pod["containers"][0]["ports"][0]["name"]]
    names, brokers = spec["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    text = (BASE / CONFIGURATION).read_text() + (PRODUCTION / "values.yaml").read_text()
    used = {int(port) for port in re.findall(r"\.example:(\d+)", text)}
    assert all(p["port"] <= port <= p["endPort"] for p in brokers["ports"] for port in used)


def test_the_image_is_the_one_that_the_readme_builds():
    (stateful,) = (each for each in rendered(BASE) if each["kind"] == "StatefulSet")
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    build = f"docker build -f deploy/Dockerfile -t {container['image']} ."
    assert build in TEXTS["deploy/README.md"]
    assert build in (ROOT / "deploy" / "Dockerfile").read_text()
    assert container["image"].endswith(f":{streamfilter.__version__}")


def test_the_brokers_stand_in_one_place_and_the_readme_names_it():
    told = yaml.safe_load((BASE / CONFIGURATION).read_text())["kafka"]["common"]
    places = [path for path in DIRECTORY.rglob("*.yaml") if ":9092" in path.read_text()]
    assert places == [BASE / CONFIGURATION]
    assert (BASE / CONFIGURATION).read_text().count(told["bootstrap.servers"]) == 1
    assert "deploy/kubernetes/base/streamfilter.yaml" in TEXTS["deploy/README.md"]


def test_the_rules_are_those_that_are_proven_elsewhere():
    assert MANIFEST.read_text() == manifest()


@pytest.fixture
def pod() -> dict:
    return loaded("statefulset.yaml")["spec"]["template"]["spec"]


def test_the_pod_meets_the_restricted_security_standard(pod):
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        allowed = container["securityContext"]
        assert allowed["allowPrivilegeEscalation"] is False
        assert allowed["readOnlyRootFilesystem"] is True
        assert allowed["capabilities"] == {"drop": ["ALL"]}
    assert {key for volume in pod["volumes"] for key in volume} <= {"name", "configMap", "emptyDir"}


def test_the_pods_user_is_the_images(pod):
    dockerfile = (DIRECTORY.parent / "Dockerfile").read_text()
    user = pod["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in dockerfile


def test_the_member_of_the_group_is_named_by_its_pod(pod):
    (name,) = (e for e in pod["containers"][0]["env"] if e["name"] == "POD_NAME")
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    configuration = yaml.safe_load((BASE / CONFIGURATION).read_text())
    assert configuration["kafka"]["consumer"]["group.instance.id"] == "${POD_NAME}"


def test_a_cluster_is_two_judges_on_the_disks_of_the_base_and_edges_without_disks():
    sets = {each["metadata"]["name"]: each for each in rendered(CLUSTER)
            if each["kind"] == "StatefulSet"}  # fmt: skip
    judges, edges = sets["streamfilter"]["spec"], sets["streamfilter-edge"]["spec"]
    (base,) = (each for each in rendered(BASE) if each["kind"] == "StatefulSet")
    assert (judges["replicas"], edges["replicas"]) == (2, 3)
    assert judges["volumeClaimTemplates"] == base["spec"]["volumeClaimTemplates"]
    assert judges["selector"] == base["spec"]["selector"], "it cannot be changed in place"
    assert "volumeClaimTemplates" not in edges
    images = {each["template"]["spec"]["containers"][0]["image"] for each in (judges, edges)}
    assert images == {f"streamfilter:{streamfilter.__version__}"}, "edges took one without a tag"
    labels = [each["selector"]["matchLabels"]["app.kubernetes.io/name"] for each in (judges, edges)]
    assert labels == ["streamfilter", "streamfilter-edge"], "a set must not own the other's pods"
    for role, spec in (("judge", judges), ("edge", edges)):
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        assert container["args"][-2:] == ["--role", role]
        assert {"name": "STREAMFILTER_CLUSTER__ENABLED", "value": "true"} in container["env"]
        assert spec["template"]["metadata"]["labels"] == spec["selector"]["matchLabels"]
        test_the_pod_meets_the_restricted_security_standard(pod)
        test_the_pods_user_is_the_images(pod)
        test_the_member_of_the_group_is_named_by_its_pod(pod)
        test_probes_ask_for_life_and_readiness_apart(pod)
    beside = {each["metadata"]["name"]: each for each in rendered(CLUSTER)
              if each["kind"] in ("Service", "PodDisruptionBudget")}  # fmt: skip
    assert beside.keys() == sets.keys()


def test_edges_and_judges_have_the_secret_of_a_secured_cluster(tmp_path):
    shutil.copytree(DIRECTORY, tmp_path / "kubernetes")
    mine = {"apiVersion": KUSTOMIZE["Kustomization"], "kind": "Kustomization"}
    mine |= {"resources": ["../kubernetes/cluster"], "components": ["../kubernetes/secured"]}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kustomization.yaml").write_text(yaml.safe_dump(mine))
    sets = [each for each in rendered(tmp_path / "mine") if each["kind"] == "StatefulSet"]
    assert len(sets) == 2
    for each in sets:
        pod = each["spec"]["template"]["spec"]
        assert "/etc/streamfilter/secured.yaml" in pod["containers"][0]["args"]
        assert "kafka" in {volume["name"] for volume in pod["volumes"]}
        assert pod["securityContext"]["fsGroup"] == 10001, "or its files cannot be read"


def test_edges_are_scraped_as_the_judges_job_and_have_its_network_policy():
    (edge,) = documents(CLUSTER / "edge.yaml")
    labels = edge["spec"]["template"]["metadata"]["labels"]
    spec = loaded("podmonitor.yaml")["spec"]
    assert selects(spec["selector"], labels)
    (monitor,) = spec["podMetricsEndpoints"]
    assert monitor["relabelings"] == [{"targetLabel": "job", "replacement": "streamfilter"}]
    assert selects(loaded("networkpolicy.yaml")["spec"]["podSelector"], labels)


def selects(selector: dict, labels: dict[str, str]) -> bool:
    return all(labels.get(each["key"]) in each["values"] for each in selector["matchExpressions"])


def test_probes_ask_for_life_and_readiness_apart(pod):
    container = pod["containers"][0]
    paths = {p: container[f"{p}Probe"]["httpGet"]["path"] for p in ("liveness", "readiness")}
    assert paths == {"liveness": "/livez", "readiness": "/readyz"}
    assert pod["terminationGracePeriodSeconds"] > 25


def test_selectors_and_ports_find_the_pod(pod):
    (monitor,) = loaded("podmonitor.yaml")["spec"]["podMetricsEndpoints"]
    ports = {port["name"] for port in pod["containers"][0]["ports"]}
    assert monitor["port"] in ports
    labels = loaded("statefulset.yaml")["spec"]["template"]["metadata"]["labels"]
    assert loaded("pdb.yaml")["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert selects(loaded("podmonitor.yaml")["spec"]["selector"], labels)
    assert loaded("service.yaml")["spec"]["selector"].items() <= labels.items()
