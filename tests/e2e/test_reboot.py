"""The node's machine goes down and up again: desired pods run again, finished ones do not.

All processes end at once (runtime, shims, containers, worker and Temporal server), and their files stay. Even if the
runtime comes back without its state, a finished job does not run again.

Holds: A recorded end is never taken back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from syncpod.translation.names import NODE_LABEL
from tests.e2e.faults_support import FaultyNode, Pod, shell, until
from tests.e2e.words import say, waits_for
from tests.runtimes.processes import kill, processes, with_descendants
from tests.runtimes.sweep import sweep
from tests.workflows.scripted import container

log = logging.getLogger("faults")

RUNS = "trap 'exit 0' TERM; while :; do sleep 600 & wait $!; done"


class Starts:
    """Counts the starts of each container, in a file on the machine that only the containers write."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file = directory / "starts"
        self._file.touch(mode=0o666)
        self.volumes = [{"name": "kept", "hostPath": {"path": str(directory), "type": "Directory"}}]
        self._mounts = [{"name": "kept", "mountPath": str(directory)}]

    def shell(self, name: str, script: str) -> dict[str, Any]:
        """A container that records its start, then runs the script."""
        return shell(name, f"echo {name} >> {self._file}; {script}", volumeMounts=self._mounts)

    def counted(self) -> Counter[str]:
        return Counter(self._file.read_text().split())

    async def noted(self, least: Counter[str]) -> Counter[str]:
        """The recorded starts, once they are these: a running container may not have recorded its own yet."""

        async def are_there() -> bool:
            return self.counted() >= least

        await until(are_there)
        return self.counted()


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path)


async def reboot(node: FaultyNode) -> None:
    """Kill every process of the node, as a power cut does, and start the programs that a machine starts."""
    containers = with_descendants([shim.pid for shim in node.runtime.shims], processes())
    node.worker.kill()
    node.runtime.kill()
    node.server.kill()
    await asyncio.to_thread(kill, containers)
    await asyncio.to_thread(node.server.start)
    await asyncio.to_thread(node.runtime.start)
    if node.runtime.name == "embedded":
        await node.warm_up()
    await node.serve()


def ended(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """How a container's current instance has ended; {} if it has not."""
    found: dict[str, Any] = container(pod, name).get("state", {}).get("terminated", {})
    return found


def runs(pod: dict[str, Any], name: str) -> bool:
    """Return whether a container runs."""
    return "running" in container(pod, name).get("state", {})


async def test_after_a_reboot_desired_pods_run_again_and_finished_ones_do_not(node: FaultyNode, starts: Starts) -> None:
    flag = starts.directory / "crashed"
    crashes_once = f"[ -e {flag} ] || {{ touch {flag}; exit 3; }}; {RUNS}"
    serving = await node.apply(
        starts.shell("web", crashes_once), initContainers=[starts.shell("first", "exit 0")], volumes=starts.volumes
    )
    job = await node.apply(starts.shell("job", "exit 0"), restartPolicy="Never", volumes=starts.volumes)
    cut_short = await node.apply(
        starts.shell("part", "exit 0"), starts.shell("long", RUNS), restartPolicy="Never", volumes=starts.volumes
    )
    retried = await node.apply(
        starts.shell("done", "exit 0"), starts.shell("works", RUNS), restartPolicy="OnFailure", volumes=starts.volumes
    )
    looping = await node.apply(starts.shell("loops", "exit 4"), volumes=starts.volumes)
    await serving.running(web=1)
    await job.until(lambda pod: pod["status"]["phase"] == "Succeeded")
    await cut_short.until(lambda pod: bool(ended(pod, "part")) and runs(pod, "long"))
    await retried.until(lambda pod: bool(ended(pod, "done")) and runs(pod, "works"))
    await looping.until(lambda pod: "back-off 10s" in waits(pod))
    before = await starts.noted(Counter({"web": 2, "long": 1, "works": 1}))

    await reboot(node)

    back = await serving.running(web=2)
    assert container(back, "first")["state"]["terminated"]["exitCode"] == 0
    failed = await cut_short.until(lambda pod: pod["status"]["phase"] == "Failed")
    assert ended(failed, "part")["exitCode"] == 0
    assert ended(failed, "long")["exitCode"] not in (0, None)
    works = await retried.until(lambda pod: runs(pod, "works"))
    assert container(works, "works")["restartCount"] == 1
    assert (ended(works, "done")["exitCode"], container(works, "done")["restartCount"]) == (0, 0)
    finished = await job.get()
    assert (finished["status"]["phase"], ended(finished, "job")["exitCode"]) == ("Succeeded", 0)
    # The crash loop continues where it was: its second restart has waited 10 s, the third waits 20 s.
    again = await looping.until(lambda pod: "back-off 20s" in waits(pod))
    assert container(again, "loops")["restartCount"] == 2
    assert container(again, "loops")["lastState"]["terminated"]["exitCode"] == 4

    expected = Counter(["first", "web", "works", "loops"])
    more = await starts.noted(before + expected) - before
    log.info("%s: started again after the reboot: %s", node.runtime.name, dict(more))
    exits = [line["outcome"] for line in await serving.history("exit")]
    log.info("%s: exits of the pod that serves: %s", node.runtime.name, exits)
    assert more == expected
    for pod in (serving, job, cut_short, retried, looping):
        await pod.delete(0)


def waits(pod: dict[str, Any]) -> str:
    """The waiting state of the crash-looping container."""
    return str(container(pod, "loops").get("state", {}).get("waiting", {}).get("message", ""))


async def test_a_wiped_runtime_runs_no_job_again(node: FaultyNode, starts: Starts) -> None:
    job = await node.apply(starts.shell("job", "exit 0"), restartPolicy="Never", volumes=starts.volumes)
    cut_short = await node.apply(
        starts.shell("part", "exit 0"), starts.shell("long", RUNS), restartPolicy="Never", volumes=starts.volumes
    )
    retried = await node.apply(
        starts.shell("done", "exit 0"), starts.shell("works", RUNS), restartPolicy="OnFailure", volumes=starts.volumes
    )
    await job.until(lambda pod: pod["status"]["phase"] == "Succeeded")
    await cut_short.until(lambda pod: bool(ended(pod, "part")) and runs(pod, "long"))
    await retried.until(lambda pod: bool(ended(pod, "done")) and runs(pod, "works"))
    before = await starts.noted(Counter(["long", "works"]))

    await node.kill()
    await sweep(node.cri, {NODE_LABEL: node.name})
    await node.serve()

    failed = await cut_short.until(lambda pod: pod["status"]["phase"] == "Failed")
    lost = ended(failed, "long")
    assert (lost["exitCode"], lost["reason"]) == (137, "ContainerStatusUnknown")
    assert ended(failed, "part")["exitCode"] == 0
    works = await retried.until(lambda pod: runs(pod, "works"))
    assert container(works, "works")["restartCount"] == 1
    assert (ended(works, "done")["exitCode"], container(works, "done")["restartCount"]) == (0, 0)
    await retried.until_event("ContainerStatusUnknown", "works")
    assert (await job.get())["status"]["phase"] == "Succeeded"
    assert await starts.noted(before + Counter(["works"])) - before == Counter({"works": 1})
    for pod in (job, cut_short, retried):
        await pod.delete(0)


async def test_a_finished_container_removed_by_others_does_not_run_again(node: FaultyNode, starts: Starts) -> None:
    flag = starts.directory / "go"
    pod = await node.apply(
        starts.shell("done", "exit 0"),
        starts.shell("crashes", f"{waits_for(str(flag))}; exit 1"),
        initContainers=[starts.shell("first", "exit 0")],
        restartPolicy="OnFailure",
        volumes=starts.volumes,
    )
    await pod.until(lambda seen: bool(ended(seen, "done")) and runs(seen, "crashes"))
    await removed(node, pod, "done", "first")
    await say(flag)
    seen = await pod.until(lambda seen: container(seen, "crashes")["restartCount"] == 1)
    assert (ended(seen, "done")["exitCode"], ended(seen, "first")["exitCode"]) == (0, 0)
    expected = Counter({"done": 1, "crashes": 2, "first": 1})
    assert await starts.noted(expected) == expected
    await pod.delete(0)


async def removed(node: FaultyNode, pod: Pod, *names: str) -> None:
    """Remove the remains of containers behind the pod's back, as a garbage collection does."""
    for each in await pod.containers():
        if each.name in names:
            await node.cri.remove_container(each.id)
