"""Lifecycle hooks on real runtimes: postStart, preStop, failures and timeouts."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.agent.waiting import until
from tests.e2e.engine import LivePod, Pods, conditions_of, shell, status_of
from tests.e2e.words import say, waits_for

pytestmark = pytest.mark.every_runtime(
    "the runtime runs the commands of hooks and sends the stop signal", one_containerd=True
)

OUT = {"name": "out", "mountPath": "/out"}
STUBBORN = "trap : TERM; while :; do sleep 600 & wait $!; done"


def saying(directory: Path) -> dict[str, Any]:
    """Volumes through which containers write to `directory`; the files outlast the containers."""
    directory.chmod(0o777)
    return {"volumes": [{"name": "out", "hostPath": {"path": str(directory)}}]}


def hook(script: str) -> dict[str, Any]:
    return {"exec": {"command": ["sh", "-c", script]}}


async def told(live: LivePod, reason: str) -> list[str]:
    return [event["message"] for event in await live.events(reason)]


async def test_hooks_run_after_the_start_and_before_the_stop(pods: Pods, tmp_path: Path) -> None:
    """Row 53, row 54, row 77: postStart within the start, preStop within the grace."""
    web = shell(
        "web",
        "mkdir -p /tmp/www; echo here >/tmp/www/stop; busybox httpd -p 8769 -h /tmp/www;"
        " trap 'echo ended >>/out/said; exit 0' TERM; while :; do sleep 600 & wait $!; done",
        volumeMounts=[OUT],
        lifecycle={
            "postStart": hook("echo started >>/out/said"),
            "preStop": hook("echo stopping >>/out/said; sleep 1"),
        },
    )
    asks = shell(
        "asks",
        ports=[{"name": "web", "containerPort": 8769}],
        lifecycle={"preStop": {"httpGet": {"path": "/stop", "port": "web"}}},
    )
    sleeps = shell("sleeps", lifecycle={"preStop": {"sleep": {"seconds": 1}}})
    live = await pods.apply("hooks", web, asks, sleeps, terminationGracePeriodSeconds=30, **saying(tmp_path))
    await live.until(lambda pod: conditions_of(pod)["Ready"][0] == "True")
    assert (tmp_path / "said").read_text() == "started\n"
    await live.armed("web")
    await live.delete()
    assert (tmp_path / "said").read_text() == "started\nstopping\nended\n"
    assert await told(live, "FailedPreStopHook") == []


async def test_a_container_is_neither_shown_as_running_nor_probed_before_its_post_start_hook_has_ended(
    pods: Pods, tmp_path: Path
) -> None:
    """Row 53, row 84: a liveness probe that would fail before the hook ends restarts nothing."""
    waits = f"touch /out/runs; {waits_for('/out/go')}; touch /out/done"
    every_second = {"periodSeconds": 1, "failureThreshold": 1}
    probe = {"exec": {"command": ["test", "-e", "/out/done"]}, **every_second}
    web = shell("web", volumeMounts=[OUT], lifecycle={"postStart": hook(waits)}, livenessProbe=probe)
    # The container that it is compared with has the same probe period.
    probe = {"exec": {"command": ["sh", "-c", "echo probed >> /out/probes"]}, **every_second}
    other = shell("other", volumeMounts=[OUT], livenessProbe=probe)
    live = await pods.apply("hooked", other, web, **saying(tmp_path))
    await until((tmp_path / "runs").exists)
    assert [each.state for each in await live.containers("web")] == ["running"]
    pod = await live.until(lambda pod: bool(pod["status"].get("podIPs")))
    assert status_of(pod, "web")["state"] == {"waiting": {"reason": "ContainerCreating"}}
    probes = tmp_path / "probes"
    earlier = len(probes.read_text().splitlines()) if probes.exists() else 0
    await until(lambda: probes.exists() and len(probes.read_text().splitlines()) >= earlier + 3)
    await say(tmp_path / "go")
    pod = await live.until(lambda pod: conditions_of(pod)["Ready"][0] == "True")
    assert status_of(pod, "web")["restartCount"] == 0
    assert await told(live, "Unhealthy") == []


async def test_a_failed_post_start_hook_kills_the_container_and_reports_why(pods: Pods) -> None:
    """Row 53: FailedPostStartHook, and PostStartHookError; then the back-off of a crash loop."""
    script = "echo password >&2; echo hello; exit 3"
    live = await pods.apply("failing", shell("web", lifecycle={"postStart": hook(script)}))
    ended = await live.until(
        lambda pod: status_of(pod, "web").get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff"
    )
    meta = ended["metadata"]
    pod = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
    said = (
        f'Exec lifecycle hook ([sh -c {script}]) for Container "web" in Pod "{pod}" failed'
        f" - error: command 'sh -c {script}' exited with 3: password\n"
        ', message: "hello\\npassword\\n"'
    )
    assert await live.failures() == [said, said]
    status = status_of(ended, "web")
    assert status["state"]["waiting"]["message"].endswith(f": PostStartHookError: {said}")
    assert status["lastState"]["terminated"]
    assert await told(live, "FailedPostStartHook") == ["PostStartHook failed"]
    assert status_of(ended, "web")["ready"] is False
    assert "password" not in str(await live.handle.query("events")) + str(await live.handle.query("history"))


async def test_a_slow_or_failed_pre_stop_hook_does_not_delay_the_stop(pods: Pods) -> None:
    """Row 78: FailedPreStopHook, also for a hook that takes too long."""
    live = await pods.apply(
        "slow",
        shell("hangs", lifecycle={"preStop": hook("sleep 600")}),
        shell("fails", lifecycle={"preStop": hook("exit 1")}),
        shell("stubborn", STUBBORN, lifecycle={"preStop": hook("true")}),
        terminationGracePeriodSeconds=3,
    )
    await live.until(lambda pod: conditions_of(pod)["Ready"][0] == "True")
    for name in ("hangs", "fails", "stubborn"):
        await live.armed(name)
    await live.handle.signal("delete_pod", {})
    final = await live.gone()
    codes = {each["name"]: each["state"]["terminated"]["exitCode"] for each in final["status"]["containerStatuses"]}
    assert codes == {"hangs": 0, "fails": 0, "stubborn": 137}, "SIGTERM still comes first, and then SIGKILL"
    events = {(event["container"], event["message"]) for event in await live.events("FailedPreStopHook")}
    assert events == {
        ("hangs", "PreStopHook did not end within the grace period: it had 3 s"),
        ("fails", "PreStopHook failed"),
    }


async def test_a_shorter_grace_does_not_run_a_hook_again(pods: Pods, tmp_path: Path) -> None:
    web = shell("web", volumeMounts=[OUT], lifecycle={"preStop": hook("echo stopping >>/out/said; sleep 60")})
    live = await pods.apply("hurried", web, terminationGracePeriodSeconds=120, **saying(tmp_path))
    await live.until(lambda pod: conditions_of(pod)["Ready"][0] == "True")
    await live.handle.signal("delete_pod", {})
    while not (tmp_path / "said").exists():  # noqa: ASYNC110  # another process makes it
        await asyncio.sleep(0.05)
    await live.delete(2)
    assert (tmp_path / "said").read_text() == "stopping\n"


async def test_a_container_is_stopped_by_its_stop_signal(pods: Pods) -> None:
    """Row 56: the runtime gets the signal, and the status shows it; an error names a runtime that supports none."""
    script = "trap 'exit 7' USR1; trap 'exit 15' TERM; while :; do sleep 600 & wait $!; done"
    live = await pods.apply(
        "signalled", shell("web", script, lifecycle={"stopSignal": "SIGUSR1"}), os={"name": "linux"}
    )
    if pods.node.runtime.name == "containerd16":
        seen = await live.until(lambda pod: status_of(pod, "web").get("state", {}).get("waiting", {}).get("message"))
        waiting = status_of(seen, "web")["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert waiting["message"].startswith("spec.containers[0].lifecycle.stopSignal: containerd 1.6")
        assert await live.containers() == []
        return
    await live.running()
    await live.armed("web", signal.SIGUSR1, signal.SIGTERM)
    assert status_of(await live.get(), "web")["stopSignal"] == "SIGUSR1"
    final = await live.delete()
    assert status_of(final, "web")["state"]["terminated"]["exitCode"] == 7
