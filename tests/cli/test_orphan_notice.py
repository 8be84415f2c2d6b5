"""The note of `up` about pods without a workflow: none about pods that have ended, or end just then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.orphans import notice
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cri.port import ContainerSummary, CriRuntime, SandboxSummary
from syncpod.lifecycle.observed import SandboxState
from syncpod.settings.worker_record import WorkerRecord
from syncpod.translation import names

WORKER = cast(WorkerRecord, SimpleNamespace(node="n1", manifest_dir=""))


class Runtime:
    """A runtime whose one pod has a sandbox in these states, one for each listing."""

    def __init__(self, *states: SandboxState | None) -> None:
        self._states = list(states)

    async def list_pod_sandboxes(self, **_: Any) -> list[SandboxSummary]:
        state = self._states.pop(0)
        labels = {names.NODE_LABEL: "n1", names.POD_UID_LABEL: "u1", names.POD_NAME_LABEL: "web"}
        labels[names.POD_NAMESPACE_LABEL] = "default"
        return [] if state is None else [SandboxSummary("s1", 0, "u1", "web", "default", state, None, labels, {}, "")]

    async def list_containers(self, **_: Any) -> list[ContainerSummary]:
        return []


@pytest.fixture(autouse=True)
def _without_a_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> list[Any]:
        return []

    async def none(*_: Any) -> str:
        return "none"

    monkeypatch.setattr(TemporalPods, "recorded", nothing)
    monkeypatch.setattr(notice, "standing_of", none)


@pytest.mark.parametrize(
    ("states", "named"),
    [
        (("SANDBOX_READY", "SANDBOX_READY"), ["pod/web"]),
        (("SANDBOX_READY", "SANDBOX_NOTREADY"), []),
        (("SANDBOX_READY", None), []),
        (("SANDBOX_NOTREADY", "SANDBOX_NOTREADY"), []),
    ],
)
async def test_a_pod_that_is_just_being_removed_is_not_named(
    states: tuple[SandboxState | None, ...], named: list[str]
) -> None:
    """Its workflow may have ended between the list of the runtime and the question."""
    runtime = cast(CriRuntime, Runtime(*states))
    assert await notice._find(cast(Client, None), runtime, WORKER) == named
