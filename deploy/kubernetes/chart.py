"""The Helm chart, made from the manifests of kustomize: one source, two ways to install it.

The text of each manifest stays, comments too. What a user may set becomes a value, and what
kustomize adds by a component or a patch becomes a condition. `tests/deploy/test_chart.py` compares
what both render.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml  # type: ignore[import-untyped]

import streamfilter

SOURCE = Path(__file__).parent
CHART = SOURCE.parent / "helm" / "streamfilter"
NAME = "streamfilter"
EDGES = "(int .Values.edges)"
PARTS = (
    ("", "base", ("serviceaccount", "service", "statefulset", "pdb")),
    (f"gt {EDGES} 0", "cluster", ("edge", "edge-service", "edge-pdb")),
    (".Values.networkPolicy", "network", ("networkpolicy",)),
    (".Values.operator", "operator", ("podmonitor", "prometheusrule")),
)
"""When they are rendered, and the manifests."""
HEAD = """\
{{- /* Written by `python -m deploy.kubernetes` from deploy/kubernetes. */ -}}
{{- $name := .Values.name | default .Release.Name }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {app.kubernetes.io/name: {{ $name }}}
data:
  streamfilter.yaml: |
    {{- toYaml .Values.configuration | nindent 4 }}
  {{- if .Values.kafkaSecret }}
  secured.yaml: |
SECURED
  {{- end }}
"""
VALUES = """\
# Written by `python -m deploy.kubernetes`. Give your own with `helm install -f mine.yaml`.
name: ""               # of all objects; empty: the name of the release
image:
  repository: streamfilter
  tag: "{version}"
replicas: 2            # one works, one stands by
storage: 20Gi          # of the index of each
storageClassName: ""   # empty: the cluster's default
edges: 0               # processes that share one index: the replicas are then judges
kafkaSecret: ""        # Secret with username, password and ca.crt: TLS and SASL, as in secured.yaml
networkPolicy: false
operator: false        # PodMonitor and PrometheusRule, for the Prometheus operator
resources:
{resources}
pod: {{}}                # more of the pods: nodeSelector, tolerations, imagePullSecrets, ...
{configuration}"""
CHART_YAML = """\
# Written by `python -m deploy.kubernetes`.
apiVersion: v2
name: {name}
description: Removes near-duplicate documents from a Kafka topic, exactly once.
type: application
version: {version}
appVersion: "{version}"
"""
CHECKSUM = """\
      annotations:                # a change of the configuration is a rollout
        checksum/configuration: {{ toYaml .Values.configuration | sha256sum }}
"""
POD = """\
      {{- with .Values.pod }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
"""
ROLE = """\
            {{- if gt EDGES 0 }}
            - --role
            - judge
            {{- end }}
"""
ENABLED = """\
            {{- if gt EDGES 0 }}
            - {name: STREAMFILTER_CLUSTER__ENABLED, value: "true"}
            {{- end }}
"""
ARGUMENTS = """\
          args:
            - run
            - --config
            - /etc/streamfilter/streamfilter.yaml
            {{- if .Values.kafkaSecret }}
            - --config
            - /etc/streamfilter/secured.yaml
            {{- end }}
"""
MOUNT = """\
            {{- if .Values.kafkaSecret }}
            - {name: kafka, mountPath: /run/secrets/kafka, readOnly: true}
            {{- end }}
"""
VOLUME = """\
        {{- if .Values.kafkaSecret }}
        - name: kafka
          secret: {secretName: {{ .Values.kafkaSecret }}, defaultMode: 288}   # 0440
        {{- end }}
"""
CLASS = """\
        {{- with .Values.storageClassName }}
        storageClassName: {{ . }}
        {{- end }}
"""
RESOURCES = re.compile(r"( +)resources:\n +requests: \{cpu.*\n +limits: .*\n")


def files() -> dict[str, str]:
    """Return the text of each file of the chart by its name."""
    version = streamfilter.__version__
    found = RESOURCES.search(_text("base", "statefulset"))
    assert found is not None
    resources = "\n".join(line.strip() for line in found[0].splitlines()[1:])
    configuration = f"configuration:\n{indent(_text('base', 'streamfilter'), '  ')}"
    values = VALUES.format(
        version=version, resources=indent(resources, "  "), configuration=configuration
    )
    return {
        "Chart.yaml": CHART_YAML.format(name=NAME, version=version),
        "values.yaml": values,
        "values.schema.json": json.dumps(_schema(values), indent=2) + "\n",
        "templates/streamfilter.yaml": _template(),
    }


def _schema(values: str) -> dict[str, Any]:
    """Return the schema by which helm refuses a value that does not exist, or of another type."""
    types = {str: "string", int: "integer", bool: "boolean", dict: "object"}
    known = yaml.safe_load(values)
    schema = {name: {"type": types[type(value)]} for name, value in known.items()}
    schema["global"] = {}  # helm's own
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": schema,
        "additionalProperties": False,
    }


def _template() -> str:
    secured = indent(_text("secured", "secured").rstrip("\n"), "    ")
    parts = [HEAD.replace("SECURED", secured)]
    for condition, directory, names in PARTS:
        text = "".join(f"---\n{_templated(_text(directory, name))}" for name in names)
        parts.append(f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text)
    return "".join(parts)


def _text(directory: str, name: str) -> str:
    return (SOURCE / directory / f"{name}.yaml").read_text(encoding="utf-8")


def _templated(text: str) -> str:
    """Return a manifest with the values in place of what they replace."""
    text = text.replace("{{", '{{ "{{" }}')  # those of Prometheus
    text = re.sub(rf"(?i)(name: ){NAME}\b", r"\1{{ $name }}", text)
    text = text.replace(f"[{NAME}, {NAME}-edge]", "[{{ $name }}, {{ $name }}-edge]")
    text = text.replace(f"replacement: {NAME}", "replacement: streamfilter")
    text = re.sub(
        r"^(metadata:\n  name: (.*)\n)", r"\1  labels: {app.kubernetes.io/name: {{ $name }}}\n",
        text, count=1, flags=re.M,
    )  # fmt: skip
    return _pods(text) if "containers:" in text else text


def _pods(text: str) -> str:
    """Return the manifest of a set of pods, with its values and conditions."""
    edge = "--role, edge" in text
    number = EDGES if edge else ".Values.replicas"
    role = "            - --role\n            - edge\n" if edge else ROLE
    image = '"{{ .Values.image.repository }}:{{ .Values.image.tag }}"'
    changes = (
        (r"replicas: \d+", f"replicas: {{{{ {number} }}}}"),
        (r"image: streamfilter", f"image: {image}"),
        (r" +args: .*\n", ARGUMENTS + role),
        (r"( +)- name: POD_NAME\n.*\n", r"\g<0>" + ("" if edge else ENABLED)),
        (r"(      labels: .*\n)(    spec:\n)", rf"\1{CHECKSUM}\2"),
        (r"        - name: tmp\n.*\n", rf"\g<0>{VOLUME}{POD}"),
        (r" +- \{name: tmp, mountPath.*\n", rf"\g<0>{MOUNT}"),
        (RESOURCES.pattern, "          resources: {{- toYaml .Values.resources | nindent 12 }}\n"),
        (r"        accessModes: .*\n", rf"\g<0>{CLASS}"),
        (r"storage: \d+Gi", "storage: {{ .Values.storage }}"),
    )
    for old, new in changes[: 8 if edge else None]:  # edges have no disk
        text, times = re.subn(old, new, text)
        assert times == 1, f"{old} is {times} times in it"
    return text.replace("EDGES", EDGES)
