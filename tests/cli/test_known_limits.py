"""The check of limits asks a node about new limits, but not about those of a pod that it runs already."""

from __future__ import annotations

from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.failure import BadInput
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.temporal import foresight
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.pod import Pod, admit_pod

WHY = "spec.containers[0].resources.limits[memory]: cannot be enforced by the embedded runtime"


def limited(name: str, memory: str = "64Mi") -> Pod:
    container = {"name": "app", "image": "busybox:1", "resources": {"limits": {"memory": memory}}}
    return admit_pod(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    )


def there(phase: str) -> FetchedPod:
    pod = limited("known")
    pod = pod.model_copy(update={"status": pod.status.model_copy(update={"phase": phase})})
    return FetchedPod(pod, {}, current=True)


@pytest.mark.parametrize(
    ("known", "names", "asked"),
    [
        (None, ["new", "newer"], ["new"]),
        (there("Running"), ["known"], []),
        (there("Running"), ["known", "new"], []),
        (there("Failed"), ["known", "new"], ["new"]),
    ],
)
async def test_limits_of_a_pod_that_is_there_are_known_to_be_enforced_unless_it_has_failed(
    monkeypatch: pytest.MonkeyPatch, known: FetchedPod | None, names: list[str], asked: list[str]
) -> None:
    told: list[str] = []

    async def read(_self: Any, _namespace: str, name: str, *, at_once: bool) -> FetchedPod | None:
        assert at_once, "a pod that was known a moment ago is known well enough"
        return known if name == "known" else None

    async def reasons(_self: Any, pod: Pod, _node: str) -> list[str]:
        told.append(pod.metadata.name)
        return []

    monkeypatch.setattr(TemporalPods, "read", read)
    monkeypatch.setattr(foresight.Foresight, "reasons", reasons)
    await foresight.refuse_unenforced(cast(Client, None), [limited(name) for name in names], "n1")
    assert told == asked


async def test_a_new_pod_whose_limits_are_not_enforced_is_refused_beside_a_known_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read(_self: Any, _namespace: str, name: str, *, at_once: bool) -> FetchedPod | None:
        assert at_once, "a pod that was known a moment ago is known well enough"
        return there("Failed") if name == "known" else None

    async def reasons(_self: Any, _pod: Pod, _node: str) -> list[str]:
        return [WHY]

    monkeypatch.setattr(TemporalPods, "read", read)
    monkeypatch.setattr(foresight.Foresight, "reasons", reasons)
    monkeypatch.setattr(foresight, "names_a_limit", lambda _: True)
    with pytest.raises(BadInput) as refused:
        await foresight.refuse_unenforced(cast(Client, None), [limited("known"), limited("new")], "n1")
    assert str(refused.value) == f"pod new: {WHY}"
