"""Pods whose workflows somebody has ended while the worker of their signed node serves it: what commands do and say."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, Run, machine
from tests.cli.test_worker_away import end_workflow, pod, status_of, until_written
from tests.runtimes.temporal import free_ports


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
    """Apply pods that run, and end their workflows."""
    manifests = {"apiVersion": "v1", "kind": "List", "items": [pod(name) for name in names]}
    applied = syncpod("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(manifests))
    assert applied.code == 0, applied.err
    for name in names:
        assert syncpod("explain", name).code == 0  # so the journal has it
        until_written(syncpod, environ, name)
        end_workflow(environ, name)
        assert status_of(syncpod, name) == "Orphan"


def test_what_cannot_end_a_pod_without_a_workflow_does_not_say_that_it_has(
    syncpod: Run, environ: dict[str, str]
) -> None:
    make_orphan(syncpod, environ, "one", "two")
    node = environ["SYNCPOD_NODE"]
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
