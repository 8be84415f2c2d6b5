"""Records the history of a node's workflow, where there is none yet: `python -m tests.replay.record_node`.

As of pods': what is checked in is what an earlier worker wrote, and must go on replaying; it is never written anew.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from activities.pod_workflows import PodWorkflowSteps
from syncpod.node_messages import NODE_WORKFLOW, NodeView, node_workflow_id
from syncpod.plugin import DATA_CONVERTER
from tests.runtimes.temporal import DevServer
from tests.workflows.scripted import ScriptedNode
from workflows.node import NodeWorkflow
from workflows.pod import PodWorkflow
from workflows.runner import sandboxed_runner

HISTORIES = Path(__file__).parent / "node_histories"


def pod(name: str, image: str = "busybox:1") -> dict[str, Any]:
    """A pod of that name."""
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": image}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def kept(client: Client, node: str, queue: str) -> WorkflowHandle[Any, Any]:
    """Lists of two sources, a pod that both name, one refused and put right, single pods, a cordon, poison."""
    handle = await client.start_workflow(NODE_WORKFLOW, {"node": node}, id=node_workflow_id(node), task_queue=queue)

    async def settled(*names: str) -> None:
        async with asyncio.timeout(30):
            while True:
                view = NodeView.model_validate(await handle.query("node"))
                if sorted(names) == sorted(each.name for each in view.desired if each.state == "applied"):
                    return
                await asyncio.sleep(0.05)

    async def sync(source: str, *pods: Any, **more: Any) -> None:
        await handle.signal("sync_pods", {"source": source, "pods": list(pods), "boot": 1, **more})

    await handle.signal("node_status", {"boot": 1, "sources": ["file"], "capacity": {"cpu": "2"}})
    await sync("file", pod("web"), pod("job"), {"metadata": {}})
    await settled("web", "job")
    await sync("team", pod("web", "busybox:2"), pod("other"))
    await settled("web", "job", "other")
    await sync("file", pod("web", ""), problems=["a file that is broken"])
    await asyncio.sleep(0.5)
    await sync("file", pod("web", "busybox:3"), kept=[{"name": "gone"}], gone=[{"name": "web"}])
    await settled("web", "other")
    await sync("file")
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


async def main() -> None:
    """Record it into `node_histories`, unless it is there."""
    path = HISTORIES / "kept.json"
    if path.exists():
        return
    with DevServer.launch() as server:
        client = await Client.connect(server.address, data_converter=DATA_CONVERTER)
        scripted = ScriptedNode()
        scripted.queue = "node/recorded"
        told = PodWorkflowSteps(client, lambda: scripted.facts)
        async with Worker(
            client,
            task_queue=scripted.queue,
            workflows=[PodWorkflow, NodeWorkflow],
            activities=[*scripted.activities(), told.apply_pod, told.delete_pod],
            workflow_runner=sandboxed_runner(),
        ):
            handle = await kept(client, "recorded", scripted.queue)
            HISTORIES.mkdir(exist_ok=True)
            path.write_text((await handle.fetch_history()).to_json())  # nothing else goes on


if __name__ == "__main__":
    asyncio.run(main())
