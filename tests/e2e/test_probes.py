"""Probes on real runtimes: readiness, restarts of dead containers, and slow starts."""

from __future__ import annotations

import pytest

from tests.e2e.engine import RUNS, LivePod, Pods, conditions_of, shell, status_of

pytestmark = pytest.mark.every_runtime("the runtime runs the commands of probes and reports exits", one_containerd=True)

SERVES = "mkdir -p /tmp/www && echo well >/tmp/www/healthz && busybox httpd -p 8765 -h /tmp/www && "
EVERY_SECOND = {"periodSeconds": 1, "failureThreshold": 1}


async def steps(live: LivePod) -> list[str]:
    """The activities that the pod's run has scheduled."""
    return [step.partition(" • ")[0] for step in await live.scheduled()]


async def test_all_probe_handlers_work_and_a_failed_liveness_probe_restarts_the_container(pods: Pods) -> None:
    """Row 88: exec, httpGet and tcpSocket on real containers; a failed liveness kills with the probe's own grace."""
    port = [{"name": "web", "containerPort": 8765}]
    live = await pods.apply(
        "asked",
        shell(
            "web",
            f"{SERVES} touch /tmp/alive && {RUNS}",
            ports=port,
            startupProbe={"exec": {"command": ["cat", "/tmp/alive"]}, "periodSeconds": 1},
            readinessProbe={"httpGet": {"path": "/healthz", "port": "web"}, **EVERY_SECOND},
            livenessProbe={
                "exec": {"command": ["cat", "/tmp/alive"]},
                "terminationGracePeriodSeconds": 1,
                **EVERY_SECOND,
            },
        ),
        shell("socket", f"{SERVES.replace('8765', '8766')} {RUNS}", readinessProbe={
            "tcpSocket": {"port": 8766}, **EVERY_SECOND,
        }, livenessProbe={"tcpSocket": {"port": "nowhere"}, **EVERY_SECOND}),
    )  # fmt: skip
    await live.until(lambda pod: conditions_of(pod)["Ready"][0] == "True")
    assert await steps(live) == ["create_sandbox", "start_container", "start_container"]

    await live.exec("web", "rm /tmp/www/healthz")
    pod = await live.until(lambda pod: conditions_of(pod)["Ready"][:2] == ("False", "ContainersNotReady"))
    assert status_of(pod, "web")["restartCount"] == 0
    unhealthy = await live.event("Unhealthy", "statuscode")
    assert unhealthy["message"] == "Readiness probe failed: HTTP probe failed with statuscode: 404"

    await live.exec("web", "rm /tmp/alive")
    pod = await live.until(
        lambda pod: status_of(pod, "web")["restartCount"] == 1 and conditions_of(pod)["Ready"][0] == "True"
    )
    assert status_of(pod, "socket")["restartCount"] == 0, "what cannot be asked is not a failure"
    assert (await steps(live))[3:] == ["kill_container", "start_container"]
    messages = [event["message"] for event in await live.events("Unhealthy")]
    assert any(message.startswith("Liveness probe failed: cat:") for message in messages)
    assert messages.count("Liveness probe errored and resulted in unknown state: couldn't find port: nowhere") == 1
    assert any("failed liveness probe" in event["message"] for event in await live.events("Killing")), (
        "the event that tells why it was killed"
    )


async def test_a_sidecar_that_has_not_started_delays_later_containers(pods: Pods) -> None:
    live = await pods.apply(
        "held-up",
        shell("main"),
        initContainers=[
            shell(
                "proxy",
                restartPolicy="Always",
                startupProbe={"exec": {"command": ["cat", "/tmp/ready"]}, "periodSeconds": 1, "failureThreshold": 100},
            )
        ],
    )
    pod = await live.until(lambda pod: status_of(pod, "proxy").get("state", {}).get("running"))
    assert status_of(pod, "proxy")["started"] is False
    await live.exec("proxy", "touch /tmp/ready")
    await live.until(lambda pod: conditions_of(pod)["Ready"][0] == "True")
    assert await steps(live) == ["create_sandbox", "start_init_container", "start_container"]


async def test_a_command_goes_on_to_be_asked_for_readiness_while_its_pod_ends(pods: Pods) -> None:
    """Row 91: a draining container becomes unready when its probe fails (kubernetes/kubernetes#140882)."""
    drains = "touch /tmp/ready; trap 'rm /tmp/ready' TERM; while true; do sleep 0.2; done"
    probe = {"exec": {"command": ["cat", "/tmp/ready"]}, **EVERY_SECOND}
    live = await pods.apply("drains", shell("web", drains, readinessProbe=probe), terminationGracePeriodSeconds=600)
    await live.running()
    await live.until(lambda pod: conditions_of(pod)["Ready"][0] == "True")
    await live.handle.execute_update("delete", {})
    pod = await live.until(lambda pod: conditions_of(pod)["Ready"][:2] == ("False", "ContainersNotReady"))
    assert "running" in status_of(pod, "web")["state"]
    await live.event("Unhealthy", "Readiness probe failed: cat:")
    await live.delete(grace=1)
