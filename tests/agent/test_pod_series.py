"""The number of metric series of a node depends only on its pods, since Prometheus keeps each series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from syncpod.agent.scraping.pod_series import pod_samples, pod_series

PODS = 1_000
SERIES_OF_A_POD, SERIES_OF_A_CONTAINER = 20, 11
"""The largest numbers of series of a pod, and of each of its containers."""
BYTES_OF_A_POD = 5_000
IMAGE = "registry.example.com/team/application"


def pod(number: int, *, containers: int = 1, restarts: int = 0) -> dict[str, Any]:
    """A pod with every feature that has a series; if there were restarts, each container has crashed."""
    uid, node = f"7f1d7c5e-58a4-4b9e-9d3c-{number:012d}", "worker-1.example.com"
    at = "2026-11-23T10:00:00Z"
    end = {"exitCode": restarts, "reason": "Error", "finishedAt": at}
    return {
        "metadata": {
            "namespace": "default",
            "name": f"application-{number}",
            "uid": uid,
            "creationTimestamp": at,
            "deletionTimestamp": at,
        },
        "spec": {"nodeName": node, "containers": [{"name": f"c{each}", "image": IMAGE} for each in range(containers)]},
        "status": {
            "phase": "Running",
            "hostIP": "192.0.2.1",
            "podIP": "10.88.0.1",
            "startTime": at,
            "conditions": [{"type": type_, "status": "True"} for type_ in ("Ready", "PodScheduled")],
            "containerStatuses": [
                {
                    "name": f"c{each}",
                    "image": IMAGE,
                    "imageID": f"{IMAGE}@sha256:{number:064x}",
                    "containerID": f"containerd://{number:064x}",
                    "ready": True,
                    "restartCount": restarts,
                    "state": {"running": {"startedAt": at}}
                    if not restarts
                    else {"waiting": {"reason": "CrashLoopBackOff"}},
                    **({"lastState": {"terminated": end}} if restarts else {}),
                }
                for each in range(containers)
            ],
        },
    }


class Answer(Collector):
    """The series of these pods."""

    def __init__(self, pods: Sequence[dict[str, Any]]) -> None:
        self._pods = pods

    def collect(self) -> Iterable[Metric]:
        return pod_series(self._pods)


def test_a_thousand_pods_have_so_many_series_and_bytes_at_most() -> None:
    text = generate_latest(Answer([pod(number) for number in range(PODS)]))
    series = [line for line in text.decode().splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series)) <= PODS * (SERIES_OF_A_POD + SERIES_OF_A_CONTAINER)
    assert len(text) <= PODS * BYTES_OF_A_POD


def test_series_grow_with_the_containers_and_not_with_what_happens_to_them() -> None:
    numbers = {containers: len(list(pod_samples(pod(1, containers=containers)))) for containers in (1, 2, 5)}
    assert numbers[2] - numbers[1] <= SERIES_OF_A_CONTAINER
    assert numbers[5] - numbers[2] == 3 * (numbers[2] - numbers[1])
    (crashed,) = {
        frozenset((name, labels) for name, labels, _ in pod_samples(pod(1, restarts=restarts)))
        for restarts in range(1, 100)
    }
    assert len(crashed) <= SERIES_OF_A_POD + SERIES_OF_A_CONTAINER


def test_the_owners_of_a_pod_are_told_as_by_kube_state_metrics() -> None:
    owned = pod(1)
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": "Shard", "name": "s", "uid": "u"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True},
    ]
    owners = [labels for name, labels, _ in pod_samples(owned) if name == "kube_pod_owner"]
    assert owners == [("Shard", "s", "false"), ("ReplicaSet", "web-1", "true")]
    (info,) = [labels for name, labels, _ in pod_samples(owned) if name == "kube_pod_info"]
    assert info[3:5] == ("ReplicaSet", "web-1")
    assert [labels for name, labels, _ in pod_samples(pod(2)) if name == "kube_pod_owner"] == [("", "", "")]
