"""Quality-of-service classes, with test names like the kubelet's own."""

from typing import Any

import pytest

from syncpod.lifecycle.qos import pod_qos
from syncpod.pod import Pod

EQUAL = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "0.1", "memory": "65536Ki"}}
NONE: dict[str, Any] = {}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "nothing asked for": ("BestEffort", {"containers": [NONE]}),
    "zero is nothing": ("BestEffort", {"containers": [{"requests": {"cpu": "0"}, "limits": {"memory": "0"}}]}),
    "neither cpu nor memory": ("BestEffort", {"containers": [{"limits": {"ephemeral-storage": "1Gi"}}]}),
    "equal, however written": ("Guaranteed", {"containers": [EQUAL]}),
    "equal in every container": ("Guaranteed", {"containers": [EQUAL, EQUAL], "initContainers": [EQUAL]}),
    "one container without": ("Burstable", {"containers": [EQUAL, NONE]}),
    "an init container without": ("Burstable", {"containers": [EQUAL], "initContainers": [NONE]}),
    "memory only": ("Burstable", {"containers": [{"requests": {"memory": "1Mi"}, "limits": {"memory": "1Mi"}}]}),
    "requests only": ("Burstable", {"containers": [{"requests": {"cpu": "1"}}]}),
    "limits only": ("Burstable", {"containers": [{"limits": {"cpu": "1", "memory": "1Mi"}}]}),
    "limits above requests": (
        "Burstable",
        {"containers": [{"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "2", "memory": "1Mi"}}]},
    ),
    "the pod's own resources decide": ("Guaranteed", {"containers": [NONE], "resources": EQUAL}),
    "the pod's own resources decide downwards": (
        "Burstable",
        {"containers": [EQUAL], "resources": {"requests": {"cpu": "1"}}},
    ),
    "empty resources of the pod decide nothing": ("Guaranteed", {"containers": [EQUAL], "resources": {}}),
}


@pytest.mark.parametrize(("expected", "spec"), CASES.values(), ids=CASES.keys())
def test_the_class_of_a_pod(expected: str, spec: dict[str, Any]) -> None:
    def named(kind: str) -> list[dict[str, Any]]:
        return [{"name": f"{kind}{i}", "image": "x", "resources": r} for i, r in enumerate(spec.get(kind, ()))]

    wire = {"containers": named("containers"), "initContainers": named("initContainers")}
    if "resources" in spec:
        wire["resources"] = spec["resources"]
    assert pod_qos(Pod.model_validate({"spec": wire})) == expected


def test_ephemeral_containers_do_not_affect_the_qos_class() -> None:
    spec = {
        "containers": [{"name": "a", "image": "x", "resources": EQUAL}],
        "ephemeralContainers": [{"name": "debug", "image": "x"}],
    }
    assert pod_qos(Pod.model_validate({"spec": spec})) == "Guaranteed"
