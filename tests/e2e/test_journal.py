"""The node's journal has a pod's whole life, even after its worker was killed and the pod was deleted."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

from syncpod.journal.reading import LifeRecords, NoJournal, lives_of, pods_of
from syncpod.journal.records import SENDER
from syncpod.messages import KillCause
from tests.agent.waiting import until
from tests.e2e.faults_support import FaultyNode, Pod, shell
from tests.fork_server import run_syncpod
from tests.runtimes.images import BUSYBOX, BUSYBOX_2

QUICKLY = {"syncpod.dev/backoff-initial": "1s", "syncpod.dev/backoff-max": "1s"}


def journaled(state_dir: Path, name: str) -> LifeRecords | None:
    try:
        return next(iter(lives_of(state_dir, "default", name)), None)
    except NoJournal:
        return None


def is_told_whole(records: LifeRecords | None) -> bool:
    """Whether the journal has a deleted pod with the name of its deleter, which comes from the server."""
    lines = records.entries if records is not None and records.gone is not None else ()
    return any((line.kind, line.subject) == (SENDER, "delete") for line in lines)


LIVES = """
n=0; [ -e /scratch/n ] && read n < /scratch/n; n=$((n + 1)); echo $n > /scratch/n
trap 'exit 0' TERM
echo life $n begins
case $n in 1) echo no config; exit 3 ;; 3) exec tail /dev/zero ;; 7) echo over again; exit 88 ;; esac
while :; do sleep 600 & wait $!; done
"""
"""A script that counts its lives: three (1, 3, 7) end by themselves, two fail a probe, two run until they are ended."""


def probe(life: int, said: str) -> dict[str, Any]:
    """A probe that fails in one of the lives. It fails once more if its command is killed with the container."""
    script = f"read n < /scratch/n; [ $n != {life} ] || {{ echo {said}; exit 1; }}"
    return {"exec": {"command": ["sh", "-c", script]}, "periodSeconds": 1, "failureThreshold": 2, "timeoutSeconds": 60}


def seven_ways() -> dict[str, Any]:
    some = {"cpu": "100m", "memory": "24Mi"}
    return shell(
        "app",
        LIVES,
        resources={"requests": some, "limits": {**some, "cpu": "150m"}},
        volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}],
        restartPolicy="Always",
        restartPolicyRules=[{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}],
        livenessProbe=probe(4, "the queue is stuck"),
        startupProbe=probe(5, "still loading"),
    )


async def crashed_in_seven_ways(node: FaultyNode) -> Pod:
    """A deleted pod whose container ended in seven ways, and which was changed and resized; its runs are deleted."""
    pod = await node.apply(
        seven_ways(), annotations=QUICKLY, hostNetwork=False, volumes=[{"name": "scratch", "emptyDir": {}}]
    )
    await pod.running(app=1)
    first = await pod.live("app")
    os.kill((await node.cri.container_status(first.id, verbose=True)).container.pid, signal.SIGKILL)
    await pod.running(app=5)  # out of memory, its liveness probe, its startup probe
    await node.kill()
    await node.serve()
    (sandbox,) = [each for each in await pod.sandboxes() if each.state == "SANDBOX_READY"]
    os.kill((await node.cri.pod_sandbox_status(sandbox.id, verbose=True)).pid, signal.SIGKILL)
    await pod.running(app=7)  # the lost sandbox, and the restart of all containers
    changed = {**pod.document, "spec": {**pod.document["spec"], "containers": [{**seven_ways(), "image": BUSYBOX_2}]}}
    await pod.handle.execute_update("apply", changed)
    await pod.running(app=8)
    more = {"cpu": "200m", "memory": "24Mi"}
    await pod.handle.execute_update("resize", {"containers": [{"name": "app", "resources": {"limits": more}}]})
    await pod.until(lambda seen: seen["status"]["containerStatuses"][0]["resources"]["limits"] == more)
    await pod.delete(grace=1)
    await until(lambda: is_told_whole(journaled(node.worker.state_dir, pod.name)))
    await node.kill()
    # As the server does after the retention, which is at least an hour by default.
    execution = WorkflowExecution(workflow_id=pod.handle.id)
    await node.client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(namespace=node.client.namespace, workflow_execution=execution)
    )
    return pod


def told(node: FaultyNode, *arguments: str) -> str:
    """The output of a command on the node's machine."""
    places = {
        "SYNCPOD_STATE_DIR": str(node.worker.state_dir),
        "SYNCPOD_LOG_DIR": str(node.worker.state_dir.parent / "logs"),
    }
    done = run_syncpod(arguments, env={**os.environ, **places})
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_seven_kinds_of_crashes_and_all_that_came_after_are_told_when_only_the_journal_is_left(
    node: FaultyNode,
) -> None:
    if not node.runtime.cgroup_parent:
        pytest.skip("cgroups are closed to this user, so that no container has a limit of memory")

    pod = await crashed_in_seven_ways(node)

    said = json.loads(told(node, "explain", pod.name, "-o", "json"))
    (app,) = said["containers"]
    assert [end["restart"] for end in app["ends"]] == list(range(9)), "no instance is missing, and none is there twice"
    assert [(end["kind"], end["cause"], end["decidedBy"]) for end in app["ends"]] == [
        ("exit 3", "exited 3", "itself"),
        (
            "signal",
            "exited 137 (128+SIGKILL), with no report that memory ran out",
            "a signal that the node did not send, or itself",
        ),
        ("oom", "out of memory at its limit of 24Mi", "the kernel"),
        ("liveness", "liveness probe failed: the queue is stuck", "the liveness probe"),
        ("startup", "startup probe failed: still loading", "the startup probe"),
        ("sandbox", "the sandbox is no longer ready", "the node: its sandbox was lost"),
        ("exit 88", "exited 88, so a rule restarted all containers", "itself"),
        ("update", "its definition was changed", "an update of the pod"),
        ("deleted", "the pod was deleted", "its deletion"),
    ]
    assert all(end["startedAt"] and end["endedAt"] for end in app["ends"])
    assert all(end["logEnd"].startswith(f"life {number} begins") for number, end in enumerate(app["ends"], start=1))
    assert told(node, "logs", pod.name, "--restart", "6") == "life 7 begins\nover again\n"
    by = f", by {node.client.identity}"
    changes = [each["what"] for each in said["changes"]]
    assert changes[2].startswith("resize: generation 3") and changes.pop(2).endswith(by)
    assert changes == [
        "apply: generation 1",
        f"apply: generation 2: image of app {BUSYBOX} -> {BUSYBOX_2}{by}",
        "resized in place: cpu limit of app 150m -> 200m",
        f"delete: grace 1 s{by}",
    ]
    assert [each["how"] for each in said["absences"]] == ["died"]
    screen = told(node, "explain", pod.name)
    assert all(end["cause"] in screen for end in app["ends"])
    assert "gone since" in screen
    assert all(life.name for life, _ in pods_of(node.worker.state_dir)), "what is removed has a pod"
    records = journaled(node.worker.state_dir, pod.name)
    assert records is not None
    exits = [line.restart for line in records.entries if line.kind == "exit"]
    assert sorted(set(exits)) == sorted(exits), "each exit is told once"


async def test_what_a_failed_hook_has_said_and_the_step_under_way_are_told(node: FaultyNode) -> None:
    fails_once = "[ -e /scratch/n ] && sleep 600; touch /scratch/n; echo no password here; exit 7"
    app = shell(
        "app",
        "trap 'exit 0' TERM; while :; do sleep 0.1; done",
        lifecycle={"postStart": {"exec": {"command": ["sh", "-c", fails_once]}}},
        volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}],
    )
    pod = await node.apply(app, annotations=QUICKLY, volumes=[{"name": "scratch", "emptyDir": {}}])
    await until(lambda: is_second_start_told(journaled(node.worker.state_dir, pod.name)))
    said: dict[str, Any] = {}

    def is_hook_told() -> bool:
        """Whether `explain` shows the postStart hook as running, which begins only after the container's start."""
        environ = {**os.environ, "SYNCPOD_STATE_DIR": str(node.worker.state_dir)}
        said.update(json.loads(run_syncpod(("explain", pod.name, "-o", "json"), env=environ).stdout))
        return bool(said["underWay"][0].get("doing") == "carries out the postStart hook of app")

    await until(is_hook_told)
    (end,) = said["containers"][0]["ends"]
    assert (end["kind"], end["cause"]) == ("poststart", "its postStart hook failed: exited 7: no password here")
    assert said["underWay"][0]["what"].startswith("start app, restart 1")
    assert "no password here" not in str(await pod.handle.query("history")), "that is kept by the server"
    await pod.delete(grace=0)


@pytest.mark.parametrize("names_uid", [False, True])
async def test_a_pod_applied_after_its_workflow_was_terminated_has_nothing_of_its_last_life(
    node: FaultyNode, names_uid: bool
) -> None:
    uid, volumes = str(uuid4()) if names_uid else "", [{"name": "scratch", "emptyDir": {}}]
    deaf = "cat /scratch/*; echo x > /scratch/of-this-life; trap '' TERM; echo begun; while :; do sleep 1; done"
    app = shell("app", deaf, volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}])
    pod = await node.apply(app, uid=uid, volumes=volumes)
    await pod.running(app=0)
    await pod.handle.terminate()
    again = await node.apply(app, name=pod.name, uid=uid, volumes=volumes)
    seen = await again.running(app=0)
    assert not uid or seen["metadata"]["uid"] == uid
    (sandbox,) = await again.sandboxes()
    assert sandbox.attempt == 0

    def recorded() -> list[LifeRecords]:
        return lives_of(node.worker.state_dir, "default", pod.name)

    await until(lambda: len(recorded()) == 2 and any(each.has_ended for each in recorded()[0].instances))
    await until(lambda: any(each["name"] == "app" for each in recorded()[1].present.get("containers", ())))
    earlier, living = recorded()
    assert (earlier.instances[0].exit.killed_by, earlier.gone) == (  # type: ignore[union-attr]
        KillCause.EARLIER_LIFE,
        earlier.instances[0].ended_at,
    )
    assert living.gone is None
    assert "Now: " in told(node, "explain", pod.name) and "gone since" not in told(node, "explain", pod.name)
    await until(lambda: " begun" in logs_of(node, pod.name))
    assert logs_of(node, pod.name).count(" begun") == 1 and " x" not in logs_of(node, pod.name)


def logs_of(node: FaultyNode, name: str) -> str:
    """All that the node has of the logs of a name."""
    logs = node.worker.state_dir.parent / "logs"
    return "".join(each.read_text() for each in logs.glob(f"default_{name}_*/*/*.log"))


def is_second_start_told(records: LifeRecords | None) -> bool:
    if records is None or not any(each.has_ended for each in records.instances):
        return False
    return any(each["what"].startswith("start app, restart 1") for each in records.present.get("underWay", ()))
