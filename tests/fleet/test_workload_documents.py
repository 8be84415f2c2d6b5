"""Deployments and DaemonSets: accepted fields, defaults, and a sentence for each refusal."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.fleet.daemon_sets import DaemonSet
from syncpod.fleet.deployments import Deployment
from syncpod.fleet.sizes import surge_and_unavailable
from syncpod.fleet.when_lost import WAIT, WhenLost, when_lost
from syncpod.fleet.workloads import admit_workload, kind_of
from syncpod.pod import PodInvalid
from syncpod.pod.wire import to_wire

LABELS = {"app": "web"}
BASE: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "main", "image": "registry.local/main:1"}]},
        },
    },
}


def changed(kind: str = "Deployment", /, **changes: Any) -> dict[str, Any]:
    """Return the base document with these values by path (`__` between the steps); the value ... removes a field."""
    document = copy.deepcopy(BASE) | {"kind": kind}
    if kind == "DaemonSet":
        del document["spec"]["replicas"]
    for path, value in changes.items():
        *steps, last = path.split("__")
        place = document
        for step in steps:
            place = place.setdefault(step, {})
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return document


def refused(document: Any) -> list[str]:
    with pytest.raises(PodInvalid) as error:
        admit_workload(document)
    return [str(problem) for problem in error.value.problems]


def test_a_deployment_gets_the_defaults_of_an_api_server() -> None:
    admitted = admit_workload(changed(spec__replicas=...))
    assert isinstance(admitted.workload, Deployment) and not admitted.warnings
    spec = admitted.workload.spec
    wire = to_wire(spec)
    assert wire["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    assert (wire["replicas"], wire["revisionHistoryLimit"], wire["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec.template.spec.restart_policy == "Always"
    assert admit_workload(to_wire(admitted.workload)).workload == admitted.workload


def test_a_daemon_set_gets_the_defaults_of_an_api_server() -> None:
    admitted = admit_workload(changed("DaemonSet"))
    assert isinstance(admitted.workload, DaemonSet)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert to_wire(admitted.workload.spec)["updateStrategy"] == strategy
    assert admit_workload(to_wire(admitted.workload)).workload == admitted.workload


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("web", "kind: must be Deployment, DaemonSet or Pod"),
        (changed() | {"kind": "StatefulSet"}, "kind: must be Deployment, DaemonSet or Pod"),
        (changed(apiVersion="v1"), "apiVersion: must be apps/v1"),
        (changed(metadata__name=...), "metadata.name: required"),
        (changed(spec__replicas=-1), "spec.replicas: must not be negative"),
        (changed(spec__replicas=2001), "spec.replicas: must be no more than 2000, is 2001"),
        (changed(spec__replicas="3"), "spec.replicas: must be an integer, not a string"),
        (changed(spec__replica=3), "spec.replica: unknown field; did you mean replicas?"),
        (changed(spec__selector=...), "spec.selector: required"),
        (changed(spec__selector={}), "spec.selector: empty selector is invalid for deployment"),
        (
            changed(spec__selector={"matchLabels": {"app": "db"}}),
            "spec.template.metadata.labels: `selector` does not match template `labels`",
        ),
        (
            changed(spec__selector={"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
            "spec.template.metadata.labels: `selector` does not match template `labels`",
        ),
        (
            changed(spec__template__spec__containers=[{"name": "main", "image": "a:1", "imag": "b"}]),
            "spec.template.spec.containers[0].imag: unknown field; did you mean image?",
        ),
        (
            changed(spec__template__spec__containers=[{"name": "main"}]),
            "spec.template.spec.containers[0].image: required",
        ),
        (changed(spec__template__spec__restartPolicy="Never"), "spec.template.spec.restartPolicy: must be Always"),
        (
            changed(spec__template__spec__activeDeadlineSeconds=5),
            "spec.template.spec.activeDeadlineSeconds: must not be set in a Deployment",
        ),
        (changed(spec__template__metadata__labels={"app": "w b"}), "spec.template.metadata.labels: `selector` does"),
        (changed(spec__minReadySeconds=-1), "spec.minReadySeconds: must not be negative"),
        (
            changed(spec__minReadySeconds=700),
            "spec.progressDeadlineSeconds: must be greater than minReadySeconds",
        ),
        (
            changed(spec__strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
            "spec.strategy.rollingUpdate.maxUnavailable: may not be 0 when `maxSurge` is 0",
        ),
        (
            changed(spec__strategy={"rollingUpdate": {"maxUnavailable": "101%"}}),
            "spec.strategy.rollingUpdate.maxUnavailable: must not be greater than 100%",
        ),
        (
            changed(spec__strategy={"rollingUpdate": {"maxSurge": "many"}}),
            "spec.strategy.rollingUpdate.maxSurge: must be a number of pods, or a percentage such as 25%",
        ),
        (
            changed(spec__strategy={"type": "Recreate", "rollingUpdate": {}}),
            "spec.strategy.rollingUpdate: may not be specified when strategy `type` is 'Recreate'",
        ),
        (changed(spec__strategy={"type": "Canary"}), "spec.strategy.type: must be RollingUpdate or Recreate"),
        (changed("DaemonSet", spec__replicas=3), "spec.replicas: unknown field"),
        (
            changed("DaemonSet", spec__updateStrategy={"type": "OnDelete"}),
            "spec.updateStrategy.type: not supported yet: OnDelete; must be RollingUpdate",
        ),
        (
            changed("DaemonSet", spec__updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
            "spec.updateStrategy.rollingUpdate.maxSurge: may not be set when maxUnavailable is non-zero",
        ),
        (
            changed("DaemonSet", spec__updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}),
            "spec.updateStrategy.rollingUpdate.maxUnavailable: cannot be 0 when maxSurge is 0",
        ),
        (
            changed(metadata__annotations={"syncpod.dev/when-lost": "replace"}),
            "metadata.annotations[syncpod.dev/when-lost]: must be wait, replace-after=DURATION or "
            "stop-after=DURATION, such as replace-after=5m, is 'replace'",
        ),
        (
            changed("DaemonSet", metadata__annotations={"syncpod.dev/when-lost": "replace-after=5m"}),
            "metadata.annotations[syncpod.dev/when-lost]: must be wait or stop-after=DURATION in a DaemonSet, "
            "whose pods belong to their nodes",
        ),
        (changed(metadata__name="w" * 230), "metadata.name: with a pod's number appended, must be no more than"),
        (
            changed(spec__template__spec__containers=[{"name": f"c{number}", "image": "a:1"} for number in range(501)]),
            "spec.template.spec.containers: must be no more than 500",
        ),
        (
            changed(spec__template__spec__containers=[{"name": "main", "image": "a:1", "args": ["\0"]}]),
            "spec.template.spec.containers[0].args[0]: must have no NUL character",
        ),
        (
            changed(spec__template__spec__volumes=[{"name": "data", "nfs": {"server": "a", "path": "/"}}]),
            "spec.template.spec.volumes[0].nfs: not supported yet: nfs volumes",
        ),
    ],
)
def test_what_is_wrong_is_said_by_its_path(document: Any, sentence: str) -> None:
    assert any(said.startswith(sentence) for said in refused(document)), refused(document)


def test_everything_wrong_is_said_at_once() -> None:
    document = changed(spec__replicas=-1, spec__template__spec__containers=[{"name": "main"}])
    assert refused(document) == [
        "spec.replicas: must not be negative",
        "spec.template.spec.containers[0].image: required",
    ]


def test_what_an_api_server_wrote_is_dropped_with_a_warning() -> None:
    admitted = admit_workload(
        changed(
            metadata__uid="9b4f",
            metadata__resourceVersion="7",
            metadata__generation=2,
            status={"replicas": 3},
            spec__template__metadata__name="web",
            spec__template__metadata__creationTimestamp=None,
        )
    )
    assert [str(warning) for warning in admitted.warnings] == [
        "metadata: dropped what an API server filled in: resourceVersion, uid, generation",
        "status: dropped: it describes the workload in another cluster",
        "spec.template.metadata.name: dropped: pods are named by their workload",
    ]


def test_fields_for_a_scheduler_are_no_cause_for_a_warning() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    admitted = admit_workload(
        changed(
            spec__template__spec__topologySpreadConstraints=[spread],
            spec__template__spec__tolerations=[{"operator": "Exists"}],
            spec__template__spec__priorityClassName="high",
        )
    )
    assert [warning.path for warning in admitted.warnings] == ["spec.template.spec.priorityClassName"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("wait", WAIT),
        ("replace-after=5m", WhenLost("replace-after", timedelta(minutes=5))),
        ("stop-after=1h30m", WhenLost("stop-after", timedelta(minutes=90))),
    ],
)
def test_what_happens_when_a_node_is_lost(text: str, rule: WhenLost) -> None:
    noted = {"syncpod.dev/when-lost": text}
    for where in ("metadata", "spec__template__metadata"):
        workload = admit_workload(changed(**{f"{where}__annotations": noted})).workload
        assert kind_of(workload).lost_rule(workload) == rule


@pytest.mark.parametrize(
    "text", ["", "replace-after", "replace-after=5", "stop-after=1s", "wait=5m", "replace-after=9999h"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must "):
        when_lost({"syncpod.dev/when-lost": text})


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "sizes"),
    [
        ("25%", "25%", 1, (1, 0)),
        ("25%", "25%", 4, (1, 1)),
        ("25%", "25%", 10, (3, 2)),
        (0, "25%", 1, (0, 1)),
        (0, "1%", 2, (0, 1)),
        ("1%", 0, 2, (1, 0)),
        (2, 3, 10, (2, 3)),
        ("100%", "100%", 3, (3, 3)),
    ],
)
def test_sizes_are_rounded_as_kubernetes_does(
    surge: int | str, unavailable: int | str, replicas: int, sizes: tuple[int, int]
) -> None:
    assert surge_and_unavailable(surge, unavailable, replicas) == sizes


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 1000))
def test_something_always_moves(surge: int, unavailable: int, replicas: int) -> None:
    more, fewer = surge_and_unavailable(f"{surge}%", f"{unavailable}%", replicas)
    assert more + fewer >= 1
    assert more >= replicas * surge / 100 and fewer <= max(1, replicas * unavailable / 100)
