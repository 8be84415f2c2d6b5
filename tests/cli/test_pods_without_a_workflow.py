"""Commands for pods whose workflows were ended while the worker of their signed node serves it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, Run, machine
from tests.cli.test_worker_away import end_worker, end_workflow, pod, status_of, until_written
from tests.runtimes.ports import free_ports


@pytest.fixture(scope="module")
def environ(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with machine(EMBEDDED, request, tmp_path_factory.mktemp("lone")) as environ:
        yield environ


@pytest.fixture(scope="module")
def syncpod(environ: dict[str, str]) -> Run:
    def command(*arguments: str, stdin: str = "") -> Result:
        return program(*arguments, environ=environ, stdin=stdin)

    port, ui_port = map(str, free_ports(2))
    upped = command("up", "--embedded", "--port", port, "--ui-port", ui_port)
    assert upped.code == 0, upped.err
    return command


def make_orphan(syncpod: Run, environ: dict[str, str], *names: str) -> None:
    """Apply pods, wait until they run, and end their workflows."""
    manifests = {"apiVersion": "v1", "kind": "List", "items": [pod(name) for name in names]}
    applied = syncpod("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(manifests))
    assert applied.code == 0, applied.err
    for name in names:
        assert syncpod("explain", name).code == 0  # so the journal has it
        until_written(syncpod, environ, name)
        end_workflow(environ, name)
        assert status_of(syncpod, name) == "Orphan"


def after(first: str, then: str) -> float:
    """The seconds from one time of day to another, at most half a day away; midnight may be between them."""
    begun, ended = (
        timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
        for hours, minutes, seconds in (moment.split(":") for moment in (first, then))
    )
    half = timedelta(hours=12)  # two clocks may tell one moment a few milliseconds apart, in either order
    return ((ended - begun + half) % timedelta(days=1) - half) / timedelta(seconds=1)


def lives(script: str) -> bool:
    """Return whether a process with this script runs."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if script.encode() in line.read_bytes():
                return True
        except OSError:
            continue
    return False


def test_what_cannot_end_a_pod_without_a_workflow_does_not_say_that_it_has(
    syncpod: Run, environ: dict[str, str]
) -> None:
    make_orphan(syncpod, environ, "one", "two")
    node = environ["SYNCPOD_NODE"]
    for words in (("tree",), ("tree", node), ("describe", "node", node)):
        shown = syncpod(*words)
        assert shown.code == 0 and [name in shown.out for name in ("one", "two", "Orphan")] == [True] * 3, shown
    for flags in (("--dry-run=client",), ()):
        drained = syncpod("drain", node, "--force", *flags)
        assert drained.code == 1 and "drained" not in drained.out and "evict" not in drained.out, drained
        assert "pods one, two run without a workflow, so drain cannot end them: `" in drained.err
        assert drained.err.endswith(" prune one two`\n")
    assert syncpod("uncordon", node).code == 0
    ignored = syncpod("delete", "pods", "one", "nobody", "--ignore-not-found")
    assert ignored.code == 1 and 'pod "one" runs without a workflow' in ignored.err, ignored
    assert "nobody" not in ignored.err

    listed = syncpod("get", "pods").err
    assert listed.count("without a workflow") == 1 and "2 pods run without a workflow (one, two), so nothing" in listed
    assert " adopt one two` gives them one and restarts nothing, `" in listed and " prune one two` ends them" in listed
    assert syncpod("prune", "one", "two").code == 0
    drained = syncpod("drain", node, "--force")
    assert (drained.code, drained.out.splitlines()[-1]) == (0, f"node/{node} drained"), drained
    assert syncpod("uncordon", node).code == 0


def test_edit_and_create_know_a_pod_without_a_workflow(syncpod: Run, environ: dict[str, str]) -> None:
    make_orphan(syncpod, environ, "three")
    edited = syncpod("edit", "three", "--editor", "touch")
    assert (edited.code, edited.out) == (1, "")
    assert 'pod "three" runs without a workflow, so nothing is decided for it: `' in edited.err
    tried = syncpod("create", "-f", "-", "--dry-run=client", stdin=json.dumps(pod("three")))
    assert (tried.code, tried.out) == (0, "pod/three created (dry run)\n"), tried.err
    assert syncpod("adopt", "three").code == 0
    tried = syncpod("create", "-f", "-", "--dry-run=client", stdin=json.dumps(pod("three")))
    assert (tried.code, tried.err) == (1, 'syncpod: pods "three" already exists in namespace default\n')


def test_a_pod_that_is_deleted_by_force_while_the_worker_is_away_is_ended_by_the_next_worker(
    syncpod: Run, environ: dict[str, str]
) -> None:
    script = f"echo {environ['SYNCPOD_NODE']}-forced; trap exit TERM; sleep 3600 & wait"
    manifest = pod("forced")
    manifest["spec"]["containers"][0]["command"] = ["sh", "-c", script]
    applied = syncpod("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(manifest))
    assert applied.code == 0, applied.err
    assert syncpod("explain", "forced").code == 0
    until_written(syncpod, environ, "forced")
    end_worker(environ)
    forced = syncpod("delete", "pod", "forced", "--force", "--timeout", "60s")
    assert (forced.code, forced.out) == (0, 'pod "forced" force deleted from default namespace\n'), forced
    assert (
        "is away, so pod forced has ended without it: its name is free, and the order to end its containers"
        in forced.err
    )
    assert lives(script), "nothing has ended it yet"
    listed = syncpod("get", "pods")
    assert "forced" not in listed.out and "without a workflow" not in listed.err, "it is deleted"
    explained = syncpod("explain", "forced").out
    assert (
        "it is deleted, and the node's worker has yet to end its containers: start the worker by `syncpod up`"
        in explained
    ), explained
    assert "deleted by force while its node was away" in explained
    assert syncpod("up").code == 0
    deadline = time.monotonic() + 60
    while lives(script):
        assert time.monotonic() < deadline, "the next worker ends it"
        time.sleep(0.1)
    while "has never ended" in (explained := syncpod("explain", "forced").out) or "ended once" not in explained:
        assert time.monotonic() < deadline, explained
        time.sleep(0.2)
    assert "the pod was deleted" in explained and "did not send" not in explained, explained


def test_the_end_of_an_earlier_life_is_the_nodes_own_decision(syncpod: Run, environ: dict[str, str]) -> None:
    make_orphan(syncpod, environ, "again")
    uid = json.loads(syncpod("get", "pod", "again", "-o", "json").out)["metadata"]["uid"]
    applied = syncpod("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(pod("again")))
    assert applied.code == 0, applied.err
    explained = syncpod("explain", "again", "--uid", uid).out
    assert "did not send" not in explained, explained
    assert "an apply began a new life of this name after this one's workflow was ended" in explained, explained
    assert "the node: an earlier life" in explained and "the node: an earlier life" in syncpod("explain", "node").out


def test_nothing_is_due_for_a_pod_without_a_workflow_and_its_state_is_that_of_the_termination(
    syncpod: Run, environ: dict[str, str]
) -> None:
    manifest = pod("short")
    # Long enough for all queries before the next start, since nothing is due for a moment then.
    manifest["metadata"]["annotations"] = {"syncpod.dev/backoff-initial": "5m"}
    manifest["spec"]["containers"][0]["command"] = ["sh", "-c", "test -e /nowhere || exit 3"]
    assert syncpod("apply", "-f", "-", stdin=json.dumps(manifest)).code == 0
    deadline = time.monotonic() + 60
    while "CrashLoopBackOff" not in syncpod("explain", "short").out:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert "default/short   app starts again" in syncpod("explain", "node").out
    end_workflow(environ, "short")
    assert status_of(syncpod, "short") == "Orphan"
    explained = syncpod("explain", "short").out
    assert "; later events are not known" in explained.splitlines()[1], explained
    assert "starts again" not in explained and "it runs without a workflow" in explained
    last = syncpod("events", "short").out.splitlines()[-1]
    assert "WorkflowEnded" in last and "Its workflow was terminated by " in last
    assert "WorkflowEnded" in syncpod("events").out and "WorkflowEnded" not in syncpod("events", "--types=Normal").out
    of_node = syncpod("explain", "node").out
    assert "starts again" not in of_node, of_node
    row = next(line.split() for line in of_node.splitlines() if line.startswith("default/short "))
    assert row[-1] == "Orphan", of_node
    ended = re.search(r"app ended at (\S+):", explained)
    assert ended is not None, explained
    assert syncpod("adopt", "short").code == 0
    history = syncpod("history", "short")
    assert " explain short` shows what happened before the pod was adopted" in history.err
    lines = history.out.splitlines()
    exited, adopted = (next(line.split()[1] for line in lines if word in line) for word in (" exit ", " update "))
    told, till = after(ended[1], exited), after(ended[1], adopted)
    assert told < till, "the exit is told with its own time, not that of the adopt"
    changes = syncpod("explain", "short").out.partition("Changes and failures:\n")[2]
    assert changes.index("its workflow was terminated at ") < changes.index("adopt: generation 1"), changes
    assert syncpod("delete", "pod", "short").code == 0
