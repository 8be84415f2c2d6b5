"""`up` after an earlier one: what it says of manifests that are no longer followed, and of pods without a workflow."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.cli.machine.processes import identify
from syncpod.cli.strays.notice import sentence
from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, Run, machine
from tests.cli.manifests import manifest

SLEEPS = ["sh", "-c", "trap exit TERM; sleep 3600 & wait"]


def pod(name: str) -> str:
    """A pod that runs until it is ended."""
    containers = [{"name": "app", "image": "busybox:1", "command": SLEEPS}]
    return json.dumps(manifest(name, hostNetwork=True, terminationGracePeriodSeconds=1, containers=containers))


@pytest.fixture(scope="module")
def environ(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a machine with the embedded runtime."""
    with machine(EMBEDDED, request, tmp_path_factory.mktemp("again")) as environ:
        yield environ


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one manifest."""
    directory = tmp_path_factory.mktemp("manifests.d")
    (directory / "web.json").write_text(pod("web"))
    return directory


@pytest.fixture(scope="module")
def syncpod(environ: dict[str, str], manifests: Path) -> Run:
    """Run commands where a node follows the manifests, and one more pod was applied."""

    def command(*arguments: str, stdin: str = "") -> Result:
        return program(*arguments, environ=environ, stdin=stdin)

    upped = command("up", "--embedded", "--manifests", str(manifests), "-f", "-", stdin=pod("cat"))
    assert upped.code == 0, upped.err
    assert f"manifests   {manifests}\n" in upped.out and "Note: " not in upped.err
    waited = command("wait", f"web-{environ['SYNCPOD_NODE']}", "--for=create", "--timeout", "60s")
    assert waited.code == 0, waited.err
    return command


def state_of(environ: dict[str, str]) -> Path:
    return Path(environ["SYNCPOD_STATE_DIR"])


def kill(environ: dict[str, str], record: str) -> None:
    """Kill the process that a record is of, as the machine might."""
    process = identify(json.loads((state_of(environ) / record).read_text())["process"]["pid"])
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)


def uid(syncpod: Run, name: str) -> str:
    return syncpod("get", "pod", name, "-o", "jsonpath={.metadata.uid}").out


def test_all_nodes_are_described_where_none_is_named(syncpod: Run, environ: dict[str, str]) -> None:
    described = syncpod("describe", "nodes")
    assert described.code == 0, described.err
    assert described.out.splitlines()[0].split() == ["Name:", environ["SYNCPOD_NODE"]]
    assert syncpod("__complete", "describe", "node", "").out == f"{environ['SYNCPOD_NODE']}\n"
    assert syncpod("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").out == environ["SYNCPOD_NODE"]


def test_manifests_that_are_no_longer_followed_are_named_once(
    syncpod: Run, environ: dict[str, str], manifests: Path
) -> None:
    static = f"web-{environ['SYNCPOD_NODE']}"
    before = uid(syncpod, static)
    running = syncpod("up")
    assert running.code == 0 and "no longer" not in running.err and f"manifests   {manifests}\n" in running.out
    assert syncpod("down", "--keep-pods").code == 0
    without = syncpod("up")
    assert without.code == 0, without.err
    (note,) = [line for line in without.err.splitlines() if line.startswith("Note: ")]
    assert note.startswith(f"Note: {manifests} is no longer followed: its pods stay as they are")
    assert note.endswith(f" up --manifests {shlex.quote(str(manifests))}` follows it again")
    assert uid(syncpod, static) == before != ""
    assert "no longer" not in syncpod("up").err


def test_a_worker_that_was_killed_is_remembered_to_have_followed_them(
    syncpod: Run, environ: dict[str, str], manifests: Path
) -> None:
    assert syncpod("down", "--keep-pods").code == 0
    assert "Note: " not in syncpod("up", "--manifests", str(manifests)).err
    kill(environ, "up-worker.json")
    assert f"Note: {manifests} is no longer followed: " in syncpod("up").err


def test_pods_without_a_workflow_are_named_with_what_to_type(syncpod: Run, environ: dict[str, str]) -> None:
    before = uid(syncpod, "cat")
    for record in ("up-worker.json", "server.json"):
        kill(environ, record)
    for path in (state_of(environ) / "temporal").glob("temporal.db*"):
        path.unlink()
    for _ in range(5):  # it is said where it is known within seconds
        upped = syncpod("up")
        assert upped.code == 0, upped.err
        if notes := [line for line in upped.err.splitlines() if "without a workflow" in line]:
            break
    (note,) = notes
    assert note.startswith(f"Note: in the runtime and without a workflow: pod/cat, pod/web-{environ['SYNCPOD_NODE']}. ")
    typed = note.split("`")[1]
    assert typed.endswith(" adopt --all")
    adopted = syncpod("adopt", "--all")
    assert adopted.code == 0, adopted.err
    assert uid(syncpod, "cat") == before
    assert "without a workflow" not in syncpod("up").err


def test_down_says_why_it_starts_a_worker(syncpod: Run, manifests: Path) -> None:
    assert syncpod("down", "--keep-pods").code == 0
    assert syncpod("up", "--manifests", str(manifests)).code == 0
    ended = syncpod("down")
    assert ended.code == 0, ended.err
    said = f"The worker followed {manifests}: another one, which does not, is started to delete the pods\n"
    assert said in ended.err and 'pod "cat" deleted\n' in ended.out and "No worker runs" not in ended.err


def test_of_very_many_a_few_are_named() -> None:
    said = sentence([f"pod/{number}" for number in range(7)])
    assert said.startswith(
        "Note: in the runtime and without a workflow: pod/0, pod/1, pod/2, pod/3, pod/4 and 2 more. `"
    )
    assert "\n" not in said
