"""`explain` while the Temporal server hangs, on a running node: what it knows, until when, and why nothing happens."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from syncpod.settings.process_records import SERVER_FILE
from tests.cli.conftest import program
from tests.cli.machine import EMBEDDED, machine
from tests.cli.up_processes import state_of

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "loop"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "a", "image": "busybox:1", "command": ["sleep", "3600"]}],
    },
}


def explained(environ: dict[str, str], what: str, *words: str) -> str:
    """The explanation, once it has all `words`."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        said = " ".join(program("explain", what, environ=environ).out.split())
        if all(word in said for word in words):
            return said
        time.sleep(1)
    raise AssertionError(f"{words} not in {said}")


@pytest.mark.skipif(os.geteuid() != 0, reason="the embedded runtime needs root")
def test_a_server_that_hangs_is_told_while_it_does_and_afterwards(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (place := tmp_path / "m").mkdir()
    with machine(EMBEDDED, request, place) as environ:
        up = program("up", "--embedded", "-f", "-", "--timeout", "60s", environ=environ, stdin=json.dumps(POD))
        assert up.code == 0, up
        server = json.loads((state_of(environ) / SERVER_FILE).read_text())["process"]["pid"]
        os.kill(server, signal.SIGSTOP)
        try:
            said = explained(environ, "loop", "the Temporal server has not answered since")
            assert "a had been running for" in said and "later events are not known" in said
            assert "the Temporal server has not answered since" in explained(environ, "node")
            assert "the Temporal server has not answered since" in program("node", environ=environ).out
        finally:
            os.kill(server, signal.SIGCONT)
        assert "no Temporal server for" in explained(environ, "loop", "a has been running for")
        of_node = explained(environ, "node")
        assert "no Temporal server for" in of_node and "does not answer" not in of_node, "it is told once"
        assert "has not answered" not in program("node", environ=environ).out
        deadline = time.monotonic() + 60
        while "ServerReachable" not in (
            shown := program("describe", "node", environ=environ).out.partition("Events:")[2]
        ):
            assert time.monotonic() < deadline, shown
            time.sleep(1)
        assert "ServerUnreachable" in shown
        logs = "".join(each.read_text() for each in (state_of(environ) / "log").glob("worker*"))
        assert "the Temporal server does not answer" in logs and "the Temporal server answers again" in logs
