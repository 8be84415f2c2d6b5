"""The number of workflow tasks of a pod: on a busy node each one waits in a queue behind those of all other pods."""

from __future__ import annotations

from temporalio.client import Client

from bench.burst import deletion_of
from bench.tasks import counted
from tests.workflows.scripted import ScriptedNode, phase, start_pod, until
from tests.workflows.test_adoption import recorded

START, DELETION = 3, 2
"""One task decides the first step, and one follows each step. The two of a start end together: one task takes both
results, unless the server has begun it in between. `tests/simulator/test_pipelining.py` counts the usual case."""


async def test_a_start_takes_three_workflow_tasks_at_most_and_a_deletion_two(
    client: Client, node: ScriptedNode
) -> None:
    """Sandbox and container; kill. An additional step, or a signal to each pod, would be counted here."""
    document = recorded()
    del document["metadata"]["uid"], document["metadata"]["creationTimestamp"]
    handle = await start_pod(client, node, document)
    await until(handle, lambda pod: phase(pod) == "Running")
    await handle.signal("delete_pod", {})
    await handle.result()
    events = (await handle.fetch_history()).events
    at = deletion_of(events)
    begun, ended = counted(events[:at]), counted(events[at:])
    assert begun.workflow - begun.timed_out in (START - 1, START)
    assert ended.workflow - ended.timed_out == DELETION
    assert (begun.steps, ended.steps) == (2, 1)
