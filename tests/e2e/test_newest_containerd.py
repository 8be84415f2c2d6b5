"""A pod's life on the newest containerd, on which a usual run has few other tests."""

from __future__ import annotations

import pytest

from tests.e2e.engine import Pods, conditions_of, shell, status_of

pytestmark = pytest.mark.parametrize("runtime", ["containerd24"], indirect=True, scope="session")


async def test_a_pod_lives_on_containerd_2_4(pods: Pods) -> None:
    """Its start in order, a probe, a restart after a crash, a new sandbox for one that is gone, and its end."""
    probe = {"exec": {"command": ["cat", "/tmp/ready"]}, "periodSeconds": 1}
    crashes = "touch /tmp/ready; until [ -e /tmp/crash ]; do sleep 0.2; done; exit 3"
    pod = await pods.apply(
        "lives",
        shell("web", crashes, readinessProbe=probe),
        initContainers=[shell("first", "exit 0"), {**shell("side"), "restartPolicy": "Always"}],
    )
    await pod.running()
    assert pod.node.runtime.version.startswith("2.4.")
    await pod.until(lambda seen: conditions_of(seen)["Ready"][0] == "True")

    await pod.exec("web", "touch /tmp/crash")
    again = await pod.running(web=1)
    assert status_of(again, "web")["lastState"]["terminated"]["exitCode"] == 3

    before = await pod.sandbox()
    await pod.node.cri.stop_pod_sandbox(before.id)
    await pod.running(web=2)
    assert (await pod.sandbox()).attempt == before.attempt + 1
    final = await pod.delete(grace=1)
    assert status_of(final, "first")["state"]["terminated"]["exitCode"] == 0
