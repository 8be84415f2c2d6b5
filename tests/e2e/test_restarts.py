"""Restart policies, restart rules and crash-loop back-off after an exit, as in the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.engine import RUNS, EngineNode, LivePod, Pods, at, conditions_of, shell, status_of
from tests.e2e.meanwhile import Told, meanwhile
from tests.e2e.words import says, waits_for

SCRATCH = {"name": "scratch", "emptyDir": {}}
ONCE = "[ -e /scratch/{mark} ] || {{ touch /scratch/{mark}; {script}; }}; "
"""A script with a part that only the first instance runs."""


def once(name: str, script: str, then: str = "exit 0", **more: Any) -> dict[str, Any]:
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    return shell(name, ONCE.format(mark=name, script=script) + then, volumeMounts=mounts, **more)


def rule(action: str, operator: str, *codes: int) -> dict[str, Any]:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}


FAILED = ("False", "PodFailed")
COMPLETED = ("False", "PodCompleted")

POLICIES = [(policy, code) for policy in ("Always", "OnFailure", "Never") for code in (0, 3)]
DELAYS = ("10s", "20s", "40s", "1m20s", "2m40s", "5m0s", "5m0s")


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def slow(engine: EngineNode) -> AsyncIterator[Told]:
    """Runs stories that wait for half a minute, while the other tests run."""
    async with meanwhile(engine, the_delays_of_a_crash_loop) as told:
        yield told


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lives(engine: EngineNode) -> AsyncIterator[dict[str, LivePod]]:
    """The pods of these tests, all applied at once, since each test takes long."""
    async with engine.pods() as pods:
        manifests: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
            f"{policy.lower()}-{code}": ([shell("main", f"exit {code}")], {"restartPolicy": policy})
            for policy, code in POLICIES
        }
        own: dict[str, list[Any]] = {
            "rule-in": ["Never", 42, [rule("Restart", "In", 41, 42)]],
            "rule-not-in": ["Never", 42, [rule("Restart", "NotIn", 0, 1)]],
            "rule-of-others": ["Never", 42, [rule("Restart", "In", 1)]],
            "own-on-failure": ["OnFailure", 42, []],
            "own-never": ["Never", 42, []],
        }
        for name, (policy, code, rules) in own.items():
            more = {"restartPolicyRules": rules} if rules else {}
            pod_policy = "OnFailure" if name == "own-never" else "Never"
            container = once("main", f"exit {code}", restartPolicy=policy, **more)
            manifests[name] = ([container], {"restartPolicy": pod_policy, "volumes": [SCRATCH]})
        manifests["mixed"] = ([shell("good", "exit 0"), shell("bad", "exit 3")], {"restartPolicy": "Never"})
        manifests["no-such-command"] = (
            [{**shell("main"), "command": ["/no/such/command"]}],
            {"restartPolicy": "Never"},
        )
        manifests["no-such-command-for-ever"] = ([{**shell("main"), "command": ["/no/such/command"]}], {})
        manifests["failed-init"] = (
            [shell("main")],
            {"restartPolicy": "Never", "initContainers": [shell("init", "exit 9")]},
        )
        manifests["retried-init"] = (
            [shell("main", "exit 0")],
            {"restartPolicy": "OnFailure", "initContainers": [once("init", "exit 9")], "volumes": [SCRATCH]},
        )
        manifests["job-with-sidecar"] = (
            [shell("main", "exit 0")],
            {"restartPolicy": "Never", "initContainers": [shell("side", restartPolicy="Always")]},
        )
        applied = await asyncio.gather(
            *(pods.apply(name, *containers, **spec) for name, (containers, spec) in manifests.items())
        )
        yield dict(zip(manifests, applied, strict=True))


# --- restartPolicy ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "code"), POLICIES)
async def test_restart_policies_decide_which_containers_restart(
    lives: dict[str, LivePod], policy: str, code: int
) -> None:
    """Row 66: Always, OnFailure, Never."""
    pod = lives[f"{policy.lower()}-{code}"]
    reason = "Completed" if code == 0 else "Error"
    if policy == "Always" or (policy == "OnFailure" and code):
        # The first restart is immediate, the next one is held back.
        seen = await pod.until(lambda pod: "CrashLoopBackOff" in str(status_of(pod, "main").get("state")))
        assert seen["status"]["phase"] == "Running"
        status = status_of(seen, "main")
        ended = status["lastState"]["terminated"]
        delay = DELAYS[status["restartCount"] - 1]
        assert (status["started"], status["ready"]) == (False, False)
        meta = pod.document["metadata"]
        uid = seen["metadata"]["uid"]
        assert status["state"]["waiting"] == {
            "reason": "CrashLoopBackOff",
            "message": f"back-off {delay} restarting failed container=main pod={meta['name']}_default({uid})",
        }
        (event,) = await pod.events("BackOff")
        assert (event["type"], event["container"]) == ("Warning", "main")
        assert event["message"] == f"Back-off restarting failed container main in pod {meta['name']}_default({uid})"
        assert conditions_of(seen)["Ready"] == (
            "False",
            "ContainersNotReady",
            "containers with unready status: [main]",
        )
    else:
        seen = await pod.phase("Succeeded" if code == 0 else "Failed")
        status = status_of(seen, "main")
        ended = status["state"]["terminated"]
        assert status["restartCount"] == 0
        assert "lastState" not in status
        end = COMPLETED if code == 0 else FAILED
        assert conditions_of(seen) == {
            "PodReadyToStartContainers": ("False", "PodSandboxNotReady", "pod sandbox is not ready"),
            "Initialized": ("True", "PodCompleted") if code == 0 else ("True",),
            "Ready": end,
            "ContainersReady": end,
            "PodScheduled": ("True",),
        }
        assert [each.state for each in await pod.sandboxes()] == ["SANDBOX_NOTREADY"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)


async def test_one_failed_container_fails_a_restart_never_pod(lives: dict[str, LivePod]) -> None:
    seen = await lives["mixed"].phase("Failed")
    codes = {name: status_of(seen, name)["state"]["terminated"]["exitCode"] for name in ("good", "bad")}
    assert codes == {"good": 0, "bad": 3}


async def test_a_missing_command_fails_a_restart_never_pod(lives: dict[str, LivePod]) -> None:
    failed = await lives["no-such-command"].phase("Failed")
    ended = status_of(failed, "main")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert status_of(failed, "main")["restartCount"] == 0


async def test_a_missing_command_leads_to_a_crash_loop(lives: dict[str, LivePod]) -> None:
    """As with a kubelet: dashboards and alerts read the count and the reason."""

    def waits(pod: dict[str, Any]) -> bool:
        status = status_of(pod, "main")
        return bool(status["restartCount"]) and status["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"

    pod = lives["no-such-command-for-ever"]
    seen = await pod.until(waits)
    ended = status_of(seen, "main")["lastState"]["terminated"]
    assert (seen["status"]["phase"], ended["exitCode"], ended["reason"]) == ("Running", 128, "StartError")
    holds = [line["reason"] for line in await pod.history("hold")]
    assert holds[0].startswith("CrashLoopBackOff 10s")


async def test_a_failed_init_container_fails_a_restart_never_pod(lives: dict[str, LivePod]) -> None:
    seen = await lives["failed-init"].phase("Failed")
    assert status_of(seen, "init")["state"]["terminated"]["exitCode"] == 9
    assert status_of(seen, "main")["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert await lives["failed-init"].containers("main") == []
    assert conditions_of(seen)["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [init]",
    )


async def test_a_failed_init_container_is_restarted(lives: dict[str, LivePod]) -> None:
    seen = await lives["retried-init"].phase("Succeeded")
    status = status_of(seen, "init")
    assert (status["restartCount"], status["state"]["terminated"]["exitCode"]) == (1, 0)
    assert status["lastState"]["terminated"]["exitCode"] == 9
    assert status_of(seen, "main")["restartCount"] == 0


async def test_a_sidecar_does_not_keep_a_finished_pod_alive(lives: dict[str, LivePod]) -> None:
    seen = await lives["job-with-sidecar"].phase("Succeeded")
    side, main = (status_of(seen, name) for name in ("side", "main"))
    assert main["state"]["terminated"]["exitCode"] == 0
    assert side["state"]["terminated"]["exitCode"] == 0
    assert side["restartCount"] == 0
    (killing,) = await lives["job-with-sidecar"].events("Killing")
    assert killing["message"] == "Stopping container side"


# --- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "phase", "restarts"),
    [
        ("rule-in", "Succeeded", 1),
        ("rule-not-in", "Succeeded", 1),
        ("rule-of-others", "Failed", 0),
        ("own-on-failure", "Succeeded", 1),
        ("own-never", "Failed", 0),
    ],
)
async def test_a_container_has_a_policy_and_rules_of_its_own(
    lives: dict[str, LivePod], name: str, phase: str, restarts: int
) -> None:
    """Row 66: on real runtimes."""
    seen = await lives[name].phase(phase)
    status = status_of(seen, "main")
    assert status["restartCount"] == restarts
    first = status["lastState" if restarts else "state"]["terminated"]
    assert (first["exitCode"], first["reason"]) == (42, "Error")
    if restarts:
        assert (await lives[name].instance("main")).restart_count == 1
        assert status["state"]["terminated"]["exitCode"] == 0


async def starting_over(pods: Pods) -> LivePod:
    """A pod whose container requests a restart of all containers at `/scratch/go`, and again at `/scratch/again`."""
    again = f"{waits_for('/scratch/again')}; exit 88"
    runs = f"echo run >> /scratch/runs; {RUNS}"
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    return await pods.apply(
        "all",
        shell("victim", runs, volumeMounts=mounts),
        once(
            "source",
            f"{waits_for('/scratch/go')}; exit 88",
            f"echo run >> /scratch/runs; trap 'exit 0' TERM; {again}",
            restartPolicy="Never",
            restartPolicyRules=[rule("RestartAllContainers", "In", 88)],
        ),
        initContainers=[
            shell("init", "echo init >> /scratch/runs", volumeMounts=mounts),
            shell("side", runs, volumeMounts=mounts, restartPolicy="Always"),
        ],
        volumes=[SCRATCH],
    )


async def is_held_as_a_whole(pod: LivePod) -> None:
    """Wait until the pod is in its back-off: no container runs, and each status has the reason."""
    held = await pod.until(lambda pod: "CrashLoopBackOff" in str(status_of(pod, "victim")["state"]))
    assert conditions_of(held)["AllContainersRestarting"][0] == "True"
    assert [each for each in await pod.containers() if each.state == "running"] == []
    waiting = [status_of(held, name)["state"]["waiting"] for name in ("victim", "source", "side")]
    assert {each["reason"] for each in waiting} == {"CrashLoopBackOff"}
    assert waiting[0]["message"].startswith("back-off 10s restarting all containers of pod=")
    assert waiting[0]["message"].endswith("source exited with code 88")
    plan = await pod.handle.query("plan")
    assert [(each["subject"], each["reason"]) for each in plan["holds"]] == [
        ("restart_all_containers", "CrashLoopBackOff")
    ]


@pytest.mark.every_runtime("it takes every kind of call in one life")
async def test_a_rule_restarts_all_containers_in_place(pods: Pods) -> None:
    """Row 75: in place, with reasons and counts; beyond the kubelet, with one back-off for the whole pod."""
    pod = await starting_over(pods)
    before = await pod.running()
    sandbox = await pod.sandbox()
    assert conditions_of(before)["AllContainersRestarting"] == ("False",)
    logs = {each.name: each.log_path for each in await pod.containers()}
    assert await pod.lines("victim", "/scratch/runs", 3) == ["init", "run", "run"]

    await pod.exec("victim", says("/scratch/go"))
    after = await pod.running(victim=1, source=1)

    # The same sandbox and address, the same volume with its contents.
    assert [(each.id, each.attempt) for each in await pod.sandboxes()] == [(sandbox.id, 0)]
    assert after["status"]["podIP"] == before["status"]["podIP"]
    order = await pod.lines("victim", "/scratch/runs", 7)
    assert order == ["init", "run", "run", "init", "run", "run", "run"]
    assert conditions_of(after)["AllContainersRestarting"] == ("False",)
    assert conditions_of(after)["Ready"] == ("True",)
    for name in ("init", "side", "victim", "source"):
        status = status_of(after, name)
        assert (name, status["restartCount"]) == (name, 1)
        last = status["lastState"]["terminated"]
        assert (name, last["reason"], last["exitCode"]) == (name, "RestartingAllContainers", 137)
        assert [each.restart_count for each in await pod.containers(name)] == [1]
        assert logs[name].endswith("/0.log")
        assert await asyncio.to_thread(Path(logs[name]).exists)  # kept, since they show the reason
    removals = [line for line in await pod.history("step") if line["subject"] == "remove_container"]
    assert [line["reason"] for line in removals] == ["a restart rule asks for all containers to be restarted"]
    killed = {event["container"] for event in await pod.events("Killing")}
    assert killed >= {"victim", "side"}
    stopped = [line["subject"] for line in await pod.history("exit") if line["reason"] == removals[0]["reason"]]
    assert sorted(stopped) == ["side", "victim"], "the history has their ends, although no listing shows them"

    await pod.exec("victim", says("/scratch/again"))
    await is_held_as_a_whole(pod)
    await pod.handle.signal("backoff_expired", {"container": "restart_all_containers"})
    anew = await pod.running(victim=2, source=2)
    assert conditions_of(anew)["AllContainersRestarting"] == ("False",)
    assert [(each.id, each.attempt) for each in await pod.sandboxes()] == [(sandbox.id, 0)]


# --- back-off ---------------------------------------------------------------------------------------------------------


async def hold(pod: LivePod) -> dict[str, Any]:
    """The pod's current hold; {} if there is none."""
    holds: list[dict[str, Any]] = (await pod.handle.query("plan"))["holds"]
    return holds[0] if holds else {}


async def backing_off(pod: LivePod, restarts: int) -> int:
    """Wait until the container is in its back-off after at least this many restarts; returns their number."""

    def seen(pod: dict[str, Any]) -> bool:
        status = status_of(pod, "main")
        return status.get("restartCount", 0) >= restarts and "CrashLoopBackOff" in str(status["state"])

    return int(status_of(await pod.until(seen), "main")["restartCount"])


async def restarted(pod: LivePod, restarts: int) -> None:
    """Wait until the container has been restarted this many times."""

    def seen(pod: dict[str, Any]) -> bool:
        return bool(status_of(pod, "main").get("restartCount", 0) >= restarts)

    await pod.until(seen)


async def the_delays_of_a_crash_loop(pods: Pods) -> None:
    pod = await pods.apply("crash", shell("main", "exit 3"))
    for restarts, delay in ((1, 10), (2, 20)):
        assert await backing_off(pod, restarts) == restarts
        until = at((await hold(pod))["until"])
        ended = (await pod.instance("main")).finished_at
        (*_, line) = await pod.history("hold")
        assert ended is not None
        assert line["reason"].startswith(
            f"CrashLoopBackOff {delay}s: back-off {delay}s restarting failed container=main"
        )
        # It counts from the exit, not from when the exit became known.
        assert ended + timedelta(seconds=delay) <= until <= at(line["at"]) + timedelta(seconds=delay)

        await restarted(pod, restarts + 1)
        begun = (await pod.instance("main")).started_at
        assert begun is not None and begun >= ended + timedelta(seconds=delay)
    # Nothing held back the first restart.
    lines = [line["reason"].split(":")[0] for line in await pod.history("hold")]
    assert lines[:2] == ["CrashLoopBackOff 10s", "CrashLoopBackOff 20s"]
    (event,) = await pod.events("BackOff")
    assert event["count"] >= 2


async def test_an_operator_can_end_each_back_off_at_once(pods: Pods) -> None:
    pod = await pods.apply("hurried", shell("main", "exit 3"))
    sent = 0
    for restarts in range(1, len(DELAYS) + 1):
        if await backing_off(pod, restarts) == restarts:
            held = await hold(pod)
            await pod.handle.signal("backoff_expired", {"container": "main"})
            sent += 1
    await restarted(pod, len(DELAYS) + 1)
    begun = (await pod.instance("main")).started_at
    assert begun is not None and begun < at(held["until"])  # minutes before its back-off would have ended
    holds = [line["reason"].split(":")[0] for line in await pod.history("hold")]
    assert holds[: len(DELAYS)] == [f"CrashLoopBackOff {delay}" for delay in DELAYS]
    lines = [line["reason"] for line in await pod.history("signal")]
    assert lines == ["an operator ends the back-off of main"] * sent


async def test_the_delays_of_a_crash_loop_are_kept_exactly(slow: Told) -> None:
    await slow["the_delays_of_a_crash_loop"]
