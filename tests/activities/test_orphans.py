"""A pod is ended as an orphan only if it is still an orphan when the step gets the pod's lock."""

from __future__ import annotations

from activities.between.orphans import OrphanEnd, OrphanEnder
from tests.activities.bench import Bench, container


async def no() -> bool:
    return False


async def yes() -> bool:
    return True


async def test_a_pod_that_is_desired_again_while_it_is_judged_keeps_running(bench: Bench) -> None:
    pod = bench.pod(container())
    await pod.create_sandbox()
    running = (await pod.start()).id
    killer = OrphanEnder(bench.node)
    assert await killer.end_pod(pod.ref, no, grace_seconds=1, why="orphan") == OrphanEnd(done=False)
    assert (await pod.listed(running)).state == "running"
    assert await killer.end_pod(pod.ref, yes, grace_seconds=1, why="orphan") == OrphanEnd(done=True)
    view = await pod.view()
    assert (view.sandboxes, view.containers) == ((), ())
