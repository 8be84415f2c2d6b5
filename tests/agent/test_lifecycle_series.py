"""The kubelet's metrics of the number of pods in each stage of their lives."""

from __future__ import annotations

from typing import Any

from syncpod.agent.scraping.lifecycle_series import lifecycle_series


def pod(*, static: bool = False, deleted: bool = False, phase: str = "Running", runs: bool = True) -> dict[str, Any]:
    meta: dict[str, Any] = {"annotations": {"kubernetes.io/config.source": "file" if static else "api"}}
    if deleted:
        meta["deletionTimestamp"] = "2026-11-29T00:00:00Z"
    state: dict[str, Any] = {"running": {}} if runs else {"terminated": {}}
    return {"metadata": meta, "status": {"phase": phase, "containerStatuses": [{"name": "a", "state": state}]}}


def test_each_pod_is_counted_by_its_state_its_source_and_whether_it_is_static() -> None:
    """A static pod whose file is gone is an orphan, and a pod of the server is wanted until that has deleted it."""
    counted = _counted(
        pod(),
        pod(phase="Pending", runs=False),
        pod(deleted=True),
        pod(phase="Succeeded", runs=False),
        pod(phase="Failed"),
        pod(static=True),
        pod(static=True, deleted=True),
        pod(static=True, deleted=True, runs=False),
        {},
    )
    assert counted["kubelet_working_pods"] == {
        ("sync", "desired", ""): 3,
        ("terminating", "desired", ""): 2,
        ("terminated", "desired", ""): 1,
        ("sync", "desired", "true"): 1,
        ("terminating", "orphan", "true"): 1,
        ("terminated", "orphan", "true"): 1,
    }
    assert counted["kubelet_active_pods"] == {("",): 3, ("true",): 1}
    assert counted["kubelet_desired_pods"] == {("",): 6, ("true",): 1}


def test_there_is_a_series_for_each_combination_of_the_kubelet() -> None:
    families = {each.name: each for each in lifecycle_series(())}
    assert {name: len(each.samples) for name, each in families.items()} == {
        "kubelet_working_pods": 15,
        "kubelet_active_pods": 2,
        "kubelet_desired_pods": 2,
    }
    assert not any(_counted().values())


def _counted(*pods: dict[str, Any]) -> dict[str, dict[tuple[str, ...], float]]:
    """For each metric, the values other than 0, by label."""
    return {
        family.name: {tuple(each.labels.values()): each.value for each in family.samples if each.value}
        for family in lifecycle_series(pods)
    }
