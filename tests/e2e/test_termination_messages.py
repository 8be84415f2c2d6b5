"""The termination messages of containers, in their status."""

from __future__ import annotations

import pytest

from tests.e2e.engine import Pods, shell, status_of

pytestmark = pytest.mark.every_runtime("the runtime mounts the message's file and keeps the log", one_containerd=True)


async def test_a_pod_shows_the_termination_messages_of_its_containers(pods: Pods) -> None:
    """Row 101: on real runtimes; also with a relative path, which the API permits."""
    live = await pods.apply(
        "words",
        shell("file", "echo hello; printf 'all done' >/dev/termination-log"),
        shell("own", "printf 'mine' >/tmp/said; exit 4", terminationMessagePath="tmp/said"),
        shell(
            "log",
            "echo one; sleep 0.2; echo two >&2; sleep 0.1; exit 3",
            terminationMessagePolicy="FallbackToLogsOnError",
        ),
        shell("silent", "echo nothing of this; exit 3"),
        restartPolicy="Never",
    )
    pod = await live.phase("Failed")
    ends = {name: status_of(pod, name)["state"]["terminated"] for name in ("file", "own", "log", "silent")}
    assert {name: (end["exitCode"], end.get("message", "")) for name, end in ends.items()} == {
        "file": (0, "all done"),
        "own": (4, "mine"),
        "log": (3, "one\ntwo\n"),
        "silent": (3, ""),
    }


async def test_each_instance_has_its_own_termination_message(pods: Pods) -> None:
    live = await pods.apply("again", shell("web", "cat /dev/termination-log; echo 7 >/dev/termination-log; exit 1"))
    pod = await live.until(lambda pod: status_of(pod, "web").get("lastState", {}).get("terminated", {}).get("message"))
    assert status_of(pod, "web")["lastState"]["terminated"]["message"].strip().isdigit()
    assert [line for line in await live.log("web") if line.strip()] == [], "the file of a new instance is empty"
