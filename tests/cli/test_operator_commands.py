"""`top`, `events`, `restart`, `wait` and completion, on real runtimes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Result, program
from tests.cli.machine import RUNTIMES, Run, bring_up, machine

BUSY = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "busy"},
    "spec": {
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {"name": "spins", "image": "busybox:1", "command": ["sh", "-c", "trap exit TERM; while :; do :; done"]},
            {"name": "rests", "image": "busybox:1", "command": ["sh", "-c", "trap exit TERM; sleep 3600 & wait"]},
        ],
    },
}


@pytest.fixture(scope="module", params=RUNTIMES)
def syncpod(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run commands on a machine with each runtime in turn and running pods."""
    with machine(request.param, request, tmp_path_factory.mktemp("operating")) as environ:
        upped = bring_up(environ)
        assert upped.code == 0, upped.err

        def command(*arguments: str, stdin: str = "") -> Result:
            return program(*arguments, environ=environ, stdin=stdin)

        yield command


def cells(text: str) -> dict[str, list[str]]:
    """The lines of a table by their first cell."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


def test_top_shows_the_container_that_uses_cpu(syncpod: Run) -> None:
    applied = syncpod("apply", "-f", "-", "--wait", stdin=json.dumps(BUSY))
    assert applied.code == 0, applied.err
    try:
        shown = syncpod("top", "pod", "busy", "--containers", "--no-headers")
        used = {line.split()[1]: line.split()[2:] for line in shown.out.splitlines()}
        assert used.keys() == {"spins", "rests"}, shown.err
        cpu = {name: int(amounts[0].removesuffix("m")) for name, amounts in used.items()}
        assert cpu["spins"] > 50 > cpu["rests"], "one spins, and the other rests"
        assert all(amounts[1].endswith("Mi") for amounts in used.values())
        pods = cells(syncpod("top", "pods", "--sort-by", "cpu").out)
        assert [*pods][:2] == ["NAME", "busy"] and {"writer"} < pods.keys() and "once" not in pods
        assert cells(syncpod("top", "pod", "-l", "app=writer").out).keys() == {"NAME", "writer"}
    finally:
        syncpod("delete", "pod", "busy", "--force")
    gone = syncpod("top", "pod", "once")
    assert (gone.code, gone.out) == (1, "") and 'pod "once": no container of the pod runs on this node' in gone.err
    (node,) = syncpod("top", "node", "--no-headers").out.splitlines()
    assert node.split()[1].endswith("m") and node.split()[2].endswith("%") and node.split()[3].endswith("Mi")


def test_events_show_a_requested_restart(syncpod: Run) -> None:
    restarted = syncpod("restart", "writer", "-c", "side", "--wait", "--timeout", "60s")
    assert (restarted.code, restarted.out) == (0, "pod/writer restarting (side)\npod/writer ready\n"), restarted.err
    ready = syncpod("wait", "pod/writer", "--for=condition=Ready", "--timeout", "30s")
    assert ready.out == "pod/writer condition met\n"
    pod = json.loads(syncpod("get", "pod", "writer", "-o", "json").out)
    counts = {each["name"]: each["restartCount"] for each in pod["status"]["containerStatuses"]}
    assert counts == {"app": 0, "side": 1}
    events = json.loads(syncpod("events", "writer", "-o", "json").out)["items"]
    about_side = [each for each in events if each["involvedObject"].get("fieldPath") == "spec.containers{side}"]
    assert {"Pulled", "Created", "Started", "Killing"} <= {each["reason"] for each in about_side}
    assert [each["lastTimestamp"] for each in events] == sorted(each["lastTimestamp"] for each in events)


def test_names_of_the_running_node_are_completed_at_once(syncpod: Run) -> None:
    assert syncpod("__complete", "logs", "wri").out == "writer\n"
    assert syncpod("__complete", "exec", "writer", "-c", "").out == "setup\napp\nside\n"
