"""A cluster's changes of a running pod reach its workflow: resources, generation and ephemeral containers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from syncpod.agent.kubernetes.cluster_orders import ClusterOrders
from syncpod.kubernetes.bound_pod import bound_pod
from syncpod.messages.node import ApplyPodWorkflow, DeletePodWorkflow, PodWorkflowResult
from tests.kubernetes.api_server import pod

DEBUGGER = {"name": "debugger", "image": "busybox:1"}


class Known:
    """A pod's state that its workflow has published."""

    def __init__(self, uid: str, *joined: str) -> None:
        self.uid, self._joined = uid, joined

    def pod(self) -> dict[str, Any]:
        return {"spec": {"ephemeralContainers": [{"name": name} for name in self._joined]} if self._joined else {}}


class Workflow:
    """Accepts orders to a workflow, and records them."""

    def __init__(self, refuses: str = "") -> None:
        self.told: list[str] = []
        self._refuses = refuses

    async def apply(self, request: ApplyPodWorkflow, *, require: Callable[[], Awaitable[None]]) -> PodWorkflowResult:
        assert "ephemeralContainers" not in request.pod["spec"]  # an apply refuses them
        self.told.append(f"apply generation {request.pod['metadata']['generation']}")
        return PodWorkflowResult(refused=self._refuses)

    async def join(self, namespace: str, name: str, container: Mapping[str, Any]) -> PodWorkflowResult:
        self.told.append(f"{container['name']} joins {namespace}/{name}")
        return PodWorkflowResult(refused="no such image" if container["image"] == "bad:1" else "")

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        self.told.append(f"end {request.name}")
        return PodWorkflowResult()


async def nothing() -> None:
    """Require nothing."""


def request(*ephemeral: Mapping[str, Any]) -> ApplyPodWorkflow:
    found = bound_pod(pod("web", spec={"ephemeralContainers": list(ephemeral)}, metadata={"generation": 2}))
    assert found is not None and found.document is not None
    return ApplyPodWorkflow(node="n1", pod=dict(found.document))


async def told(workflow: Workflow, known: Known | None, *ephemeral: Mapping[str, Any]) -> PodWorkflowResult:
    return await ClusterOrders(workflow, lambda namespace, name: known).apply(request(*ephemeral), require=nothing)


async def test_a_container_joins_and_the_clusters_generation_counts() -> None:
    workflow = Workflow()
    await told(workflow, Known("uid-of-web", "first"), {**DEBUGGER, "name": "first"}, DEBUGGER)
    assert workflow.told == ["apply generation 2", "debugger joins default/web", "apply generation 2"]


async def test_a_container_that_has_joined_is_not_told_again_but_to_another_pod_of_the_name() -> None:
    workflow = Workflow()
    await told(workflow, Known("uid-of-web", "debugger"), DEBUGGER)
    await told(workflow, Known("uid-of-web"))
    assert workflow.told == ["apply generation 2"] * 2
    for known in (None, Known("another", "debugger")):
        workflow = Workflow()
        await told(workflow, known, DEBUGGER)
        assert "debugger joins default/web" in workflow.told


async def test_a_refusal_is_the_orders_answer() -> None:
    workflow = Workflow(refuses="no")
    assert (await told(workflow, None, DEBUGGER)).refused == "no"
    assert workflow.told == ["apply generation 2"]
    refused = await told(Workflow(), None, {**DEBUGGER, "image": "bad:1"})
    assert refused.refused == "no such image"
    await ClusterOrders(workflow, lambda namespace, name: None).end(DeletePodWorkflow(namespace="default", name="web"))
    assert workflow.told[-1] == "end web"
