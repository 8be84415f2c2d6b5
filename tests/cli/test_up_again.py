"""`up` after an earlier `up`: messages about manifests no longer followed and about pods without a workflow.

Holds: A node with pods keeps its name, its runtime and its Temporal cluster.
Holds: Short commands load little.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.orphans.notice import sentence
from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, Run, machine
from tests.cli.manifests import manifest
from tests.cli.starts import started
from tests.cli.up_processes import kill, state_of

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
    assert f"manifests   {manifests}\n" in upped.out and notes(upped) == []
    waited = command("wait", f"web-{environ['SYNCPOD_NODE']}", "--for=create", "--timeout", "60s")
    assert waited.code == 0, waited.err
    return command


def notes(result: Result) -> list[str]:
    """A command's notes, without those for users other than root and for busy machines."""
    found = [line for line in result.err.splitlines() if line.startswith("Note: ")]
    beside = ("cgroups are closed to this user", "has not answered yet about")
    return [note for note in found if not any(words in note for words in beside)]


def uid(syncpod: Run, name: str) -> str:
    return syncpod("get", "pod", name, "-o", "jsonpath={.metadata.uid}").out


def test_describe_nodes_without_a_name_describes_all(syncpod: Run, environ: dict[str, str]) -> None:
    described = syncpod("describe", "nodes")
    assert described.code == 0, described.err
    assert described.out.splitlines()[0].split() == ["Name:", environ["SYNCPOD_NODE"]]
    assert syncpod("__complete", "describe", "node", "").out == f"{environ['SYNCPOD_NODE']}\n"
    assert syncpod("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").out == environ["SYNCPOD_NODE"]


@pytest.mark.parametrize(
    "words",
    [("pods",), ("pod", "cat", "-o", "json"), ("pods", "-A", "-o", "wide", "--show-labels"), ("pods", "-n", "x")],
)
def test_get_reads_the_nodes_own_pods_without_the_temporal_sdk(
    syncpod: Run, environ: dict[str, str], words: tuple[str, ...]
) -> None:
    """The node's worker lists the pods; importing the SDK to query the server takes longer than everything else."""
    start = started("get", *words, **environ)
    assert start.code == 0 and start.heavy == set() and start.commands == {"get"}
    asked = started("get", *words, **environ, TEMPORAL_UNHEARD_OF="has the server asked, as any unusual setting does")
    assert "temporalio" in asked.heavy
    assert (without_age(start.out), start.err) == (without_age(asked.out), asked.err)
    assert "cat" in start.out or words[-1] == "x"


@pytest.mark.parametrize(
    "words", [("get", "-o", "wide"), ("get", "-o", "json"), ("get", "--show-labels"), ("describe",)], ids=" ".join
)
@pytest.mark.parametrize("is_named", [False, True], ids=["all", "named"])
def test_the_node_is_shown_without_the_temporal_sdk(
    syncpod: Run, environ: dict[str, str], words: tuple[str, ...], is_named: bool
) -> None:
    things = ("node", environ["SYNCPOD_NODE"]) if is_named else ("nodes",)
    start = started(*words[:1], *things, *words[1:], **environ)
    assert start.code == 0 and start.heavy == set() and start.commands == {words[0]}, start.err
    asked = started(*words[:1], *things, *words[1:], **environ, TEMPORAL_UNHEARD_OF="as above")
    assert "temporalio" in asked.heavy
    assert (without_age(start.out), start.err) == (without_age(asked.out), asked.err)


@pytest.mark.parametrize(
    "words",
    [
        ("history", "cat"),
        ("history", "cat", "-o", "json"),
        ("events", "cat", "-o", "json"),
        ("events", "-A", "--types", "Normal"),
        ("events", "-n", "x"),
    ],
)
def test_what_happened_to_the_nodes_own_pods_is_told_without_the_temporal_sdk(
    syncpod: Run, environ: dict[str, str], words: tuple[str, ...]
) -> None:
    start = started(*words, **environ)
    assert start.code == 0 and start.heavy <= {"yaml"}, start.err
    asked = started(*words, **environ, TEMPORAL_UNHEARD_OF="has the server asked, as any unusual setting does")
    assert "temporalio" in asked.heavy
    assert (without_age(start.out), start.err) == (without_age(asked.out), asked.err)
    assert start.out or words[-1] == "x"


def without_age(text: str) -> str:
    """A table without its column of ages, whose width varies."""
    return re.sub(r"AGE +", "AGE ", re.sub(r" +\d+[smh]+(\d+s)? *", " ", text))


def test_logs_and_exec_reach_the_nodes_own_pods_without_the_temporal_sdk(syncpod: Run, environ: dict[str, str]) -> None:
    start = started("logs", "cat", **environ)
    assert (start.code, start.out, start.err) == (0, "", "") and "temporalio" not in start.heavy
    ran = started("exec", "cat", "--", "sh", "-c", "echo done; exit 3", **environ)
    assert (ran.code, ran.out, ran.err) == (3, "done\n", "") and "temporalio" not in ran.heavy
    nobodys = syncpod("logs", "dog")
    assert (nobodys.code, nobodys.err) == (1, 'syncpod: pods "dog" not found in namespace default\n')


def test_a_pod_is_described_without_the_temporal_sdk_and_the_models(syncpod: Run, environ: dict[str, str]) -> None:
    """The worker has both, and makes the text."""
    start = started("describe", "pod", "cat", **environ)
    assert start.code == 0 and start.heavy == set(), start.err
    asked = started("describe", "pod", "cat", **environ, TEMPORAL_UNHEARD_OF="has the server asked")
    assert "temporalio" in asked.heavy
    assert without_age(start.out).splitlines() == without_age(asked.out).splitlines() and start.err == asked.err
    nobodys = started("describe", "pod", "dog", **environ)
    assert (nobodys.code, nobodys.err) == (1, 'syncpod: pods "dog" not found in namespace default\n')


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("explain", "cat"), set()),
        (("explain", "cat", "--start"), set()),
        (("explain", "node"), set()),
        (("tree",), {"pydantic"}),
        (("node",), {"pydantic"}),
    ],
)
def test_a_node_that_is_served_is_explained_and_drawn_without_the_temporal_sdk(
    syncpod: Run, environ: dict[str, str], words: tuple[str, ...], most: set[str]
) -> None:
    """Only a pod or a node without a worker or a workflow has the server asked."""
    start = started(*words, **environ)
    assert start.code == 0 and start.heavy <= most, start.err


def test_get_says_at_once_that_a_pod_does_not_exist(syncpod: Run, environ: dict[str, str]) -> None:
    start = started("get", "pod", "cat", "dog", **environ)
    assert (start.code, start.heavy) == (1, set())
    assert start.out.count("\n") == 2 and start.err == 'syncpod: pods "dog" not found in namespace default\n'


def test_manifests_no_longer_followed_are_named_once(syncpod: Run, environ: dict[str, str], manifests: Path) -> None:
    static = f"web-{environ['SYNCPOD_NODE']}"
    before = uid(syncpod, static)
    running = syncpod("up")
    assert running.code == 0 and "no longer" not in running.err and f"manifests   {manifests}\n" in running.out
    refused = syncpod("up", "--no-manifests")
    assert refused.code == 1 and f"was started with --manifests {manifests}, not without --manifests: " in refused.err
    assert syncpod("down", "--keep-pods").code == 0
    without = syncpod("up", "--no-manifests")
    assert without.code == 0, without.err
    (note,) = notes(without)
    assert note.startswith(f"Note: {manifests} is no longer followed: its pods stay as they are")
    assert note.endswith(f" up --manifests {shlex.quote(str(manifests))}` follows it again")
    assert uid(syncpod, static) == before != ""
    assert "no longer" not in syncpod("up").err


def test_up_after_a_worker_crash_starts_the_same_node(
    syncpod: Run, environ: dict[str, str], manifests: Path, tmp_path: Path
) -> None:
    """With its earlier name, runtime, manifests and directories, though no argument gives them."""
    assert syncpod("down", "--keep-pods").code == 0
    assert notes(syncpod("up", "--manifests", str(manifests))) == []
    before = [json.loads((state_of(environ) / name).read_text()) for name in ("worker.json", "node-settings.json")]
    kill(environ, "up-worker.json")
    name = environ["SYNCPOD_NODE"]
    silent = {"SYNCPOD_STATE_DIR": environ["SYNCPOD_STATE_DIR"], "CONTAINER_RUNTIME_ENDPOINT": ""}
    for flags, reason in (
        (("--node", "another"), f"has pods of node {name}, so it cannot become node another: keep the name"),
        (("--runtime-endpoint", str(tmp_path / "cri.sock")), "no container runtime at"),
    ):
        refused = program("up", *flags, environ=silent)
        assert refused.code == 2 and reason in refused.err and refused.err.count("\n") == 1, refused.err
    again = program("up", environ=silent)
    assert again.code == 0 and notes(again) == [], again.err
    after = [json.loads((state_of(environ) / name).read_text()) for name in ("worker.json", "node-settings.json")]
    assert after[1] == before[1]
    of_node = ("node", "endpoint", "address", "memory_dir", "manifest_dir", "task_queue")
    assert [after[0][each] for each in of_node] == [before[0][each] for each in of_node]
    assert syncpod("wait", "pod/cat", "--for=condition=Ready", "--timeout", "60s").code == 0
    assert "1/1     Running   0 " in syncpod("get", "pod", "cat").out


def test_labels_of_the_node_hold_until_they_are_taken_back(syncpod: Run, environ: dict[str, str]) -> None:
    """A worker keeps its labels, so `up` refuses others while it runs; invalid labels are refused earlier."""
    for wrong in ("disk", "kubernetes.io/role=master"):
        refused = syncpod("up", "--node-labels", wrong)
        assert refused.code == 2 and f"node label '{wrong}': must" in refused.err, refused.err
        assert refused.err.count("\n") == 1 and "(--node-labels or SYNCPOD_NODE_LABELS)" in refused.err
    beside = syncpod("up", "--node-labels", "disk=ssd")
    assert beside.code == 1, beside.err
    assert "was started without --node-labels, not with --node-labels disk=ssd: end it" in beside.err

    assert syncpod("down", "--keep-pods").code == 0
    assert syncpod("up", "--node-labels", "disk=ssd,example.com/rack=7").code == 0
    assert syncpod("up").code == 0 and syncpod("up", "--node-labels", "example.com/rack=7,disk=ssd").code == 0
    has_label(syncpod, "disk=ssd")
    for name, asked in (("fits", {"disk": "ssd"}), ("elsewhere", {"disk": "tape"})):
        wanted: dict[str, Any] = {"nodeSelector": asked, "restartPolicy": "Never", "hostNetwork": True}
        document = json.dumps(
            manifest(name, containers=[{"name": "app", "image": "busybox:1", "command": SLEEPS}], **wanted)
        )
        assert syncpod("apply", "-f", "-", stdin=document).code == 0
    assert syncpod("wait", "pod/fits", "--for=condition=Ready", "--timeout", "60s").code == 0
    assert syncpod("wait", "pod/elsewhere", "--for=jsonpath={.status.phase}=Failed", "--timeout", "60s").code == 0
    assert syncpod("get", "pod", "elsewhere", "-o", "jsonpath={.status.reason}").out == "NodeAffinity"

    assert syncpod("down", "--keep-pods").code == 0
    assert syncpod("up").code == 0
    has_label(syncpod, "disk=ssd")
    assert syncpod("down", "--keep-pods").code == 0
    assert syncpod("up", "--node-labels", "").code == 0
    has_label(syncpod, "disk=ssd", no=True)
    assert syncpod("delete", "pods", "fits", "elsewhere", "--now").code == 0


def has_label(syncpod: Run, label: str, *, no: bool = False) -> None:
    """Wait until the node has a label, or no longer has it: its worker reports labels shortly after its start."""
    deadline = time.monotonic() + 30
    while (label in (shown := syncpod("describe", "node")).out) == no:
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)


def test_another_limit_of_processes_is_refused_beside_a_worker(syncpod: Run) -> None:
    refused = syncpod("up", "--pod-max-pids", "0")
    assert refused.code == 2
    assert "--pod-max-pids='0': must be a whole number from 1, or -1 for no limit" in refused.err
    beside = syncpod("up", "--pod-max-pids", "500")
    assert beside.code == 1, beside.err
    assert "was started with --pod-max-pids -1, not with --pod-max-pids 500: end it" in beside.err
    assert syncpod("up", "--pod-max-pids", "-1").code == 0


def test_a_setting_of_the_environment_is_refused_beside_a_worker_that_has_another(
    syncpod: Run, environ: dict[str, str]
) -> None:
    """It would be silently ignored. It is kept for the next start, like a setting from a flag."""
    environ["SYNCPOD_EVICTION_HARD"] = "nodefs.available<1Mi"
    beside = syncpod("up")
    assert beside.code == 1, beside.out
    assert "was started without --eviction-hard, not with --eviction-hard 'nodefs.available<1Mi': end it" in beside.err
    assert syncpod("down", "--keep-pods").code == 0 and syncpod("up").code == 0
    del environ["SYNCPOD_EVICTION_HARD"]
    assert syncpod("up").code == 0
    kept = json.loads((Path(environ["SYNCPOD_STATE_DIR"]) / "node-settings.json").read_text())["variables"]
    assert kept["SYNCPOD_EVICTION_HARD"] == "nodefs.available<1Mi"


def test_another_address_of_metrics_is_refused_beside_a_worker(syncpod: Run) -> None:
    beside = syncpod("up", "--metrics-address", "127.0.0.1:1")
    assert beside.code == 1, beside.out
    assert "was started without --metrics-address, not with --metrics-address 127.0.0.1:1: end it" in beside.err
    assert syncpod("up", "--metrics-address", "").code == 0


def test_a_pod_ended_by_force_while_its_node_was_away_is_killed_when_that_is_back(
    syncpod: Run, environ: dict[str, str]
) -> None:
    assert syncpod("apply", "-f", "-", stdin=pod("left")).code == 0
    assert syncpod("wait", "pod/left", "--for=condition=Ready", "--timeout", "60s").code == 0
    kill(environ, "up-worker.json")
    before = uid(syncpod, "left")
    forced = syncpod("delete", "pod", "left", "--force", "--timeout", "60s")
    assert forced.code == 0 and "has ended without it: its name is free" in forced.err, forced.err
    assert syncpod("up").code == 0
    still = syncpod("get", "pod", "left")
    assert still.code == 1 or "Orphan" in still.out, still
    assert syncpod("apply", "-f", "-", stdin=pod("left")).code == 0
    assert syncpod("wait", "pod/left", "--for=condition=Ready", "--timeout", "90s").code == 0
    again = uid(syncpod, "left")
    assert again != before != ""
    assert "left" not in [line.split()[0] for line in syncpod("prune", "--all", "--dry-run").out.splitlines()]
    assert syncpod("delete", "pod", "left", "--now").code == 0
    pods, deadline = state_of(environ) / "pods", time.monotonic() + 60
    while (pods / before).exists() or (pods / again).exists():  # else the next test's `up` finds the remains, too
        assert time.monotonic() < deadline, "the node has not removed the pod's remains"
        time.sleep(0.1)


def test_pods_without_a_workflow_are_named_with_the_command_to_adopt_them(
    syncpod: Run, environ: dict[str, str]
) -> None:
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
    assert note.startswith("Note: in the runtime and without a workflow: pod/cat. `")
    typed = note.split("`")[1]
    assert typed.endswith(" adopt --all")
    adopted = syncpod("adopt", "--all")
    assert adopted.code == 0, adopted.err
    assert uid(syncpod, "cat") == before
    assert "without a workflow" not in syncpod("up").err


def test_down_says_why_it_starts_a_worker_and_what_it_waits_for(
    syncpod: Run, environ: dict[str, str], manifests: Path
) -> None:
    stubborn = (
        pod("stubborn").replace("trap exit TERM", "trap '' TERM").replace('PeriodSeconds": 1', 'PeriodSeconds": 600')
    )
    assert syncpod("down", "--keep-pods").code == 0
    assert syncpod("up", "--manifests", str(manifests), "-f", "-", stdin=stubborn).code == 0
    late = syncpod("down", "--timeout", "1s")
    assert late.code == 1 and "nothing" not in late.err
    assert 'pod "stubborn" did not end within 1s, and is being ended further: still running: app' in late.err
    assert "are still running; `" in late.err and " down --keep-pods` ends these processes" in late.err
    assert json.loads((state_of(environ) / "node-settings.json").read_text())["variables"][
        "SYNCPOD_MANIFEST_DIR"
    ] == str(manifests), "the worker that only deletes pods does not change what the node is"
    for _ in range(20):  # until the step's next heartbeat
        waits = syncpod("delete", "pod", "stubborn", "--timeout", "1s")
        if "; kill_pod, waits for app to stop (at most " in waits.err:
            break
    assert 'pod "stubborn": still running: app (grace period 600 s); kill_pod, waits for app to stop' in waits.err
    assert syncpod("delete", "pod", "stubborn", "--now").code == 0
    ended = syncpod("down")
    assert ended.code == 0, ended.err
    said = f"The worker followed {manifests}: another one, which does not, is started to delete the pods\n"
    assert said in late.err and "No worker runs" not in late.err
    assert not (state_of(environ) / "node-settings.json").exists(), "it may become another node now"


def test_up_names_only_a_few_of_many_pods() -> None:
    said = sentence([f"pod/{number}" for number in range(7)])
    assert said.startswith(
        "Note: in the runtime and without a workflow: pod/0, pod/1, pod/2, pod/3, pod/4 and 2 more. `"
    )
    assert "\n" not in said
