"""Records missing histories of a node's workflow: `python -m tests.replay.record_node`.

As for pods, the histories in the repository must continue to replay, and those of a released version are never recorded
again. There is one history of each story for each version of the decisions.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import Worker

from activities.pod_workflows import PodWorkflowSteps
from syncpod.lifecycle.version import build_id
from syncpod.messages.node import NODE_WORKFLOW, NodeView, node_workflow_id
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.pod_orders import PodOrders
from tests.replay.record import TODAY
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.workflows.sandbox import sandboxed_runner
from tests.workflows.scripted import DIGEST, ScriptedNode
from workflows.node.workflow import NodeWorkflow
from workflows.pod.workflow import PodWorkflow

HISTORIES = Path(__file__).parent / "node_histories"


def pod(name: str, image: str = "busybox:1") -> dict[str, Any]:
    """A pod with this name."""
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": image}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def kept(client: Client, node: str, queue: str) -> WorkflowHandle[Any, Any]:
    """Lists of two sources, a pod in both, a refused and then corrected one, other pods, a cordon, invalid input."""
    handle = await client.start_workflow(NODE_WORKFLOW, {"node": node}, id=node_workflow_id(node), task_queue=queue)

    async def settled(*names: str) -> None:
        async with asyncio.timeout(60):
            while True:
                view = NodeView.model_validate(await handle.query("node"))
                if sorted(names) == sorted(each.name for each in view.desired if each.state == "applied"):
                    return
                await asyncio.sleep(0.05)

    async def sync(source: str, *pods: Any) -> None:
        await handle.signal("sync_pods", {"source": source, "pods": list(pods)})

    static = {"namespace": "default", "name": "static", "uid": "s", "state": "applied"}
    await handle.signal("node_status", {"boot": 1, "sources": ["file"], "capacity": {"cpu": "2"}})
    await handle.signal("static_pods", {"boot": 1, "pods": [static], "problems": ["a file that is broken"]})
    await sync("crew", pod("web"), pod("job"), {"metadata": {}})
    await settled("web", "job", "static")
    await sync("team", pod("web", "busybox:2"), pod("other"))
    await settled("web", "job", "other", "static")
    await sync("crew", pod("web", ""))
    await asyncio.sleep(0.5)
    await handle.signal("static_pods", {"boot": 1, "pods": [], "gone": [{"name": "static"}]})
    await sync("crew", pod("web", "busybox:3"))
    await settled("web", "other")
    await sync("crew")
    await settled("web", "other")
    await handle.signal("sync_pods", args=[1, 2])
    await handle.signal("apply", {"pod": pod("single")})
    await handle.execute_update("cordon")
    await handle.execute_update("delete", {"name": "single", "gracePeriodSeconds": 0})
    await handle.signal("apply", {"pod": pod("refused")})
    await handle.execute_update("uncordon")
    await sync("team")
    await settled()
    return handle


async def renewed(client: Client, node: str, queue: str) -> WorkflowHandle[Any, Any]:
    """A run that continues as new on request. A refused pod of a list is held back; a refused single pod is not."""
    begun = await client.start_workflow(NODE_WORKFLOW, {"node": node}, id=node_workflow_id(node), task_queue=queue)
    handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(begun.id, run_id=begun.first_execution_run_id)

    async def told(text: str) -> None:
        async with asyncio.timeout(60):
            while True:
                view = NodeView.model_validate(await handle.query("node"))
                if any(each.reason == "FailedPodSync" and text in each.message for each in view.events):
                    return
                await asyncio.sleep(0.05)

    await handle.signal("sync_pods", {"source": "team", "pods": [pod("held-back", "")]})
    await told("held-back")
    await handle.signal("apply", {"pod": pod("not-held", "")})
    await told("not-held")
    await handle.signal("sync_pods", {"source": "team", "pods": [pod("held-back", ""), pod("there")]})
    await handle.signal("renew", {})
    async with asyncio.timeout(60):
        while True:
            if (await handle.describe()).status != WorkflowExecutionStatus.RUNNING:
                return handle
            await asyncio.sleep(0.05)


STORIES = (kept, renewed)


async def main() -> None:
    """Record the missing histories in `node_histories`."""
    directory = HISTORIES / TODAY
    directory.mkdir(parents=True, exist_ok=True)
    missing = [story for story in STORIES if not (directory / f"{story.__name__}.json").exists()]
    if not missing:
        return
    with DevServer.launch() as server:
        client = await connect(server.address, data_converter=DATA_CONVERTER)
        for story in missing:
            scripted, node = ScriptedNode(), f"recorded-{story.__name__}"
            scripted.queue = node_workflow_id(node)
            told = PodWorkflowSteps(PodOrders(client, lambda scripted=scripted: scripted.facts))  # type: ignore[misc]
            async with Worker(
                client,
                task_queue=scripted.queue,
                workflows=[PodWorkflow, NodeWorkflow],
                activities=[*scripted.activities(), told.apply_pod, told.apply_pods, told.delete_pod, told.delete_pods],
                workflow_runner=sandboxed_runner(),
                build_id=build_id("syncpod-test", DIGEST),
            ):
                handle = await story(client, node, scripted.queue)
                history = await handle.fetch_history()
            (directory / f"{story.__name__}.json").write_text(history.to_json() + "\n")  # nothing else happens


if __name__ == "__main__":
    asyncio.run(main())
