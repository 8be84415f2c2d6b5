"""`up --encrypt`: pods are unreadable in Temporal and its database, and all commands work as without encryption."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from syncpod.settings.worker_record import read_worker_record
from syncpod.signing.keys import add_signing_key
from tests.cli.conftest import program
from tests.cli.machine import EMBEDDED, machine
from tests.cli.test_signed_node import run
from tests.runtimes.processes import kill
from tests.runtimes.temporal import temporal_program


def pod(name: str, **labels: str) -> dict[str, Any]:
    """A pod that has its own name in its command, its environment and its image."""
    container = {
        "name": "app",
        "image": f"{name}-image:1",
        "command": ["sh", "-c", f"echo {name}-command; trap exit TERM; sleep 3600 & wait"],
        "env": [{"name": "PASSPHRASE", "value": f"{name}-secret"}],
    }
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def said(name: str) -> set[str]:
    return {f"{name}-image:1", f"{name}-command", f"{name}-secret"}


@pytest.fixture(scope="module")
def environ(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with machine(EMBEDDED, request, tmp_path_factory.mktemp("encrypted")) as environ:
        yield environ | {"SYNCPOD_ORPHANS_PERIOD": "1s"}


def up(environ: dict[str, str], *flags: str, **pods: Any) -> None:
    documents = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*pods.values()]})
    upped = program("up", "--embedded", *flags, "-f", "-", "--timeout", "90s", environ=environ, stdin=documents)
    assert upped.code == 0, upped.err


def exports(environ: dict[str, str]) -> dict[str, str]:
    lines = program("env", environ=environ).out.splitlines()
    exported = (line.removeprefix("export ") for line in lines if line.startswith("export "))
    return dict(line.replace("'", "").split("=", 1) for line in exported)


def in_database(environ: dict[str, str], name: str) -> set[str]:
    files = (Path(environ["SYNCPOD_STATE_DIR"]) / "temporal").iterdir()
    stored = b"".join(path.read_bytes() for path in files)
    return {text for text in said(name) if text.encode() in stored}


def shown(environ: dict[str, str], name: str, *, with_codec: bool) -> set[str]:
    """The output of `temporal workflow show` for a pod."""
    owner = exports(environ)
    known = owner if with_codec else {"TEMPORAL_ADDRESS": owner["TEMPORAL_ADDRESS"]}
    show = ("workflow", "show", "--workflow-id", f"pod/default/{name}", "--output", "json")
    done = run(str(temporal_program()), *show, environ=known)
    assert done.code == 0, done.err
    words = re.findall(r'"data": "([A-Za-z0-9+/=]+)"', done.out)
    printed = done.out + b"".join(map(base64.b64decode, words)).decode(errors="replace")
    return {text for text in said(name) if text in printed}


def kill_worker(environ: dict[str, str]) -> None:
    worker = read_worker_record(Path(environ["SYNCPOD_STATE_DIR"]))
    assert worker is not None
    kill([worker.pid])


def test_nothing_of_a_pod_can_be_read(environ: dict[str, str], tctl: Path) -> None:
    """And a node begins to encrypt while it has a pod, which obeys also after kill -9 and after a new key."""
    up(environ, early=pod("early"))
    assert in_database(environ, "early") == shown(environ, "early", with_codec=False) == said("early")
    refused = program("up", "--embedded", "--encrypt", environ=environ)
    assert (refused.code, "sends plain payloads to Temporal, not encrypted ones" in refused.err) == (1, True), refused

    kill_worker(environ)
    up(environ, "--encrypt", late=pod("late"), early=pod("early", now="encrypted"))
    assert shown(environ, "late", with_codec=False) == set()
    assert shown(environ, "late", with_codec=True) == said("late")
    listed = run(
        str(tctl), "workflow", "show", "-w", "pod/default/late", "--output_filename", "/dev/stdout",
        environ=exports(environ),
    )  # fmt: skip
    assert {"late-image:1", "late-command"} <= {text for text in said("late") if text in listed.out}, (
        "tctl cuts the rest"
    )

    kill_worker(environ)
    add_signing_key(Path(environ["SYNCPOD_STATE_DIR"]))
    up(environ, late=pod("late", key="new"))  # it goes on as it was started
    for name, label in (("late", "key=new"), ("early", "now=encrypted")):
        found = program("get", "pods", "-l", label, "-o", "name", environ=environ)
        assert found.out.strip() == f"pod/{name}", found
        signalled = run(
            str(temporal_program()), "workflow", "signal", "--workflow-id", f"pod/default/{name}", "--name", "restart",
            "--input", '{"container": "app"}', environ=exports(environ),
        )  # fmt: skip
        assert signalled.code == 0, signalled.err
        waiting = ("wait", "pod", name, "--for", "jsonpath={.status.containerStatuses[0].restartCount}=1")
        assert program(*waiting, "--timeout", "60s", environ=environ).code == 0
    assert "restart" in program("history", "late", environ=environ).out
    for what in ("late", program("get", "nodes", "-o", "name", environ=environ).out.strip()):
        replayed = program("replay", what, environ=environ)  # late's run has commands that two keys have signed
        assert replayed.out.endswith(": the code at hand makes the same decisions\n"), replayed
    show = ("workflow", "show", "--workflow-id", "pod/default/late", "--output", "json")
    decoded = run(str(temporal_program()), *show, environ=exports(environ)).out
    replayed = program("replay", "-f", "-", environ=environ, stdin=decoded)
    assert replayed.out.endswith(": the code at hand makes the same decisions\n"), replayed
    keyless = environ | {"SYNCPOD_STATE_DIR": f"{environ['SYNCPOD_STATE_DIR']}-none"}
    unread = program("replay", "late", environ=keyless | {"TEMPORAL_ADDRESS": exports(environ)["TEMPORAL_ADDRESS"]})
    assert (unread.code, unread.out, "only the keys in the node's state directory decrypt it" in unread.err) == (
        2,
        "",
        True,
    ), unread
    deleted = program("delete", "pod", "late", environ=environ)
    assert deleted.code == 0, deleted.err
    assert in_database(environ, "late") == set()


def test_a_pod_whose_workflow_a_stranger_has_terminated_runs_on(environ: dict[str, str]) -> None:
    """And is looked after again, as it was, also where its history is encrypted."""
    up(environ, "--encrypt", third=pod("third"))
    its_id = ("get", "pod", "third", "-o", "jsonpath={.status.containerStatuses[0].containerID}")
    before = program(*its_id, environ=environ)
    address = {"TEMPORAL_ADDRESS": exports(environ)["TEMPORAL_ADDRESS"]}
    terminate = ("workflow", "terminate", "--workflow-id", "pod/default/third")
    terminated = run(str(temporal_program()), *terminate, environ=address)
    assert terminated.code == 0, terminated.err
    assert "left: no signed command has ended it: `syncpod adopt` or" in program("node", environ=environ).out
    ways = "syncpod adopt third` gives it one and restarts nothing"
    table = program("get", "pods", environ=environ)
    assert [line.split()[2] for line in table.out.splitlines() if line.startswith("third ")] == ["Orphan"]
    assert table.err.startswith("Note: pod third runs without a workflow") and ways in table.err
    assert "third: Orphan: it has no workflow; this was reported last" in program("tree", environ=environ).out
    explained = program("explain", "third", environ=environ).out
    assert "  it runs without a workflow, so nothing is decided for it" in explained and ways in explained
    for asked in (("describe", "pod", "third"), ("get", "pod", "third", "-o", "yaml")):
        told = program(*asked, environ=environ)
        assert told.code == 0 and "syncpod.dev/orphan: " in told.out and ways in told.err
    assert program("exec", "third", "--", "echo", "here", environ=environ).out == "here\n"
    for refused in (("delete", "pod", "third"), ("restart", "third"), ("label", "pod", "third", "a=b")):
        told = program(*refused, environ=environ)
        assert (told.code, ways in told.err) == (1, True), told
    adopted = program("adopt", "third", environ=environ)
    assert "pod/third adopted; running: app" in adopted.out, adopted
    after = program(*its_id, environ=environ)
    assert after.out == before.out != ""
    assert "Orphan" not in program("get", "pods", environ=environ).out

    assert run(str(temporal_program()), *terminate, environ=address).code == 0
    earlier = "Note: an earlier pod third runs, and its workflow was ended: the node ends this pod before"
    for tried in (("plan",), ("apply", "--dry-run=client"), ("apply", "--dry-run=server")):
        assert earlier in program(*tried, "-f", "-", environ=environ, stdin=json.dumps(pod("third"))).err
    again = program("apply", "-f", "-", environ=environ, stdin=json.dumps(pod("third")))
    assert again.out == "pod/third created\n"
    assert earlier in again.err
    waited = program("wait", "pod", "third", "--for", "condition=Ready", "--timeout", "60s", environ=environ)
    assert waited.code == 0, waited
    assert program(*its_id, environ=environ).out != before.out
    assert "Orphans: <none>" in program("node", environ=environ).out
