"""Pods whose workflows were ended while no worker served the node, or before the worker knew them."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from syncpod.node.recorded_events import recorded_cordon
from syncpod.node.recorded_pods import recorded_creation, recorded_pod
from syncpod.settings.kept import read_kept_settings, write_kept_settings
from syncpod.settings.worker_record import read_worker_record
from tests.agent.waiting import until
from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, Run, machine, remains
from tests.cli.test_signed_node import run
from tests.cli.up_processes import state_of
from tests.runtimes.processes import kill
from tests.runtimes.temporal import temporal_program


@pytest.fixture(scope="module")
def environ(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    directory = tmp_path_factory.mktemp("away")
    with machine(EMBEDDED, request, directory) as environ:
        (directory / "manifests").mkdir(mode=0o755)
        yield environ | {"MANIFESTS": str(directory / "manifests")}


@pytest.fixture(scope="module")
def syncpod(environ: dict[str, str]) -> Run:
    def command(*arguments: str, stdin: str = "") -> Result:
        return program(*arguments, environ=environ, stdin=stdin)

    upped = command("up", "--embedded", "--manifests", environ["MANIFESTS"])
    assert upped.code == 0, upped.err
    return command


def pod(name: str) -> dict[str, Any]:
    script = f"echo {name} runs; trap exit TERM; sleep 3600 & wait"
    container = {"name": "app", "image": "busybox:1", "command": ["sh", "-c", script]}
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def end_workflow(environ: dict[str, str], name: str) -> None:
    server = json.loads((state_of(environ) / "server.json").read_text())["address"]
    terminate = ("workflow", "terminate", "--workflow-id", f"pod/default/{name}", "--address", server)
    done = run(str(temporal_program()), *terminate, environ={"TEMPORAL_CONFIG_FILE": os.devnull})
    assert done.code == 0, done.err


def status_of(syncpod: Run, name: str) -> str:
    lines = (line.split() for line in syncpod("get", "pods").out.splitlines())
    return next((words[2] for words in lines if words[0] == name), "")


def until_written(syncpod: Run, environ: dict[str, str], name: str) -> None:
    """Wait until the pod's last state is on disk, shortly after its workflow published it."""
    uid = json.loads(syncpod("get", "pod", name, "-o", "json").out)["metadata"]["uid"]
    deadline = time.monotonic() + 60
    while True:
        written = recorded_pod(state_of(environ), f"pod/default/{name}", uid) or {}
        if (written.get("status") or {}).get("phase") == "Running":
            return
        assert time.monotonic() < deadline, written
        time.sleep(0.05)


def end_worker(environ: dict[str, str]) -> None:
    worker = read_worker_record(state_of(environ))
    assert worker is not None
    kill([worker.pid])


def test_a_pod_whose_workflow_was_ended_while_the_worker_was_away_is_shown_and_its_earlier_life_is_told_of(
    syncpod: Run, environ: dict[str, str]
) -> None:
    for name in ("alone", "attended"):
        applied = syncpod("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(pod(name)))
        assert applied.code == 0, applied.err
        assert syncpod("explain", name).code == 0  # so the journal has it: a worker that is killed writes no more
        until_written(syncpod, environ, name)
    end_worker(environ)
    end_workflow(environ, "alone")

    ways = "Note: pod alone runs without a workflow, so nothing is decided for it: `"
    views = (("get", "pods"), ("get", "pods", "alone"), ("tree",), ("describe", "pod", "alone"))
    for asked in (*views, ("history", "alone"), ("events", "alone")):
        told = syncpod(*asked)
        assert told.code == 0 and ways in told.err, told
    assert (status_of(syncpod, "alone"), status_of(syncpod, "attended")) == ("Orphan", "Running?")
    assert "1/1?    Orphan   0?" in syncpod("get", "pods", "alone").out, "marked: it is what it told last"
    orphans = syncpod("node").out.partition("Orphans:")[2].partition("Housekeeping:")[0]
    assert "default/alone" in orphans and "default/attended" not in orphans and "left: no worker serves this" in orphans
    node = syncpod("describe", "node", environ["SYNCPOD_NODE"]).out
    assert re.search(r"default +alone +Orphan +api +\d", node), node
    assert re.search(r"default +attended +Running\? +api +\d", node), "its age is known here"
    everything = syncpod("events")
    assert everything.code == 0 and "Pod/attended (app)" in everything.out, "by the node's journal"
    assert "; the events of attended are those of its journal" in everything.err
    described = syncpod("describe", "pod", "attended").out
    assert "Running? (last reported; the pod did not answer)" in described
    assert "Events, as last reported:" in described and "Container started" in described
    assert syncpod("logs", "alone").out == "alone runs\n"
    alone, attended = (syncpod("explain", name).out for name in ("alone", "attended"))
    assert "Next:  " in alone and "it runs without a workflow, so nothing is decided for it: `" in alone
    assert "; no worker serves this node: `syncpod up` first\n" in alone
    assert "no worker serves this node: nothing of this happens until `syncpod up`" in attended
    assert "without a workflow" not in attended
    assert "generation 1" in syncpod("history", "alone").out, "by the node's journal: the workflow does not answer"
    assert "Container started" in syncpod("events", "alone").out
    waited = syncpod("wait", "pod", "alone", "--for=delete", "--timeout=1s")
    assert (waited.code, ways.removeprefix("Note: ") in waited.err) == (1, True), "it is not gone: it runs"
    refused = syncpod("delete", "pod", "alone")
    assert (refused.code, "syncpod prune alone` ends it" in refused.err) == (1, True), refused

    for command in ("adopt", "prune"):
        left = syncpod(command, "attended")
        assert (left.code, "looks after it once a worker serves this node again (`syncpod up`)" in left.err) == (
            1,
            True,
        )
    kept = syncpod("delete", "pod", "attended", "--timeout", "1s")
    assert kept.code == 1 and kept.err.count("the deletion is kept") == 2 and "marked with ?" not in kept.err, kept
    assert kept.err.count("is away") == 1, "the reason is told once"

    assert syncpod("up").code == 0
    again = syncpod("apply", "-f", "-", stdin=json.dumps(pod("alone")))
    assert again.out == "pod/alone created\n"
    assert "Note: an earlier pod alone runs, and its workflow was ended: the node ends this pod before" in again.err
    assert again.err.count("adopt alone`, in place of an apply, keeps it") == 1, again


def test_no_pod_is_an_orphan_on_the_word_of_another_server_or_of_a_dead_worker(
    syncpod: Run, environ: dict[str, str]
) -> None:
    applied = syncpod("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(pod("cared")))
    assert applied.code == 0, applied.err
    until_written(syncpod, environ, "cared")
    end_worker(environ)
    again = syncpod("apply", "-f", "-", stdin=json.dumps(pod("cared")))
    assert "is away" in again.err and "its workflow was ended" not in again.err, again

    kept = read_kept_settings(state_of(environ))
    end_workflow(environ, "cared")  # another server has none of it either
    write_kept_settings(state_of(environ), replace(kept, cluster="another/one"))
    seen = syncpod("get", "pods")
    assert "not about this node" in seen.err and "without a workflow" not in seen.err, seen
    assert "cared" not in seen.out
    for command in ("adopt", "prune"):
        for which in ("cared", "--all"):
            refused = syncpod(command, which)
            assert (refused.code, refused.out) == (1, ""), refused
            assert "has no record of the workflows of node" in refused.err, refused
    write_kept_settings(state_of(environ), kept)
    assert status_of(syncpod, "cared") == "Orphan", "it runs"
    assert syncpod("prune", "cared").out == "pod/cared pruned\n"
    assert syncpod("up").code == 0


def test_the_age_of_an_adopted_pod_counts_from_its_creation_while_no_worker_serves_its_node(
    syncpod: Run, environ: dict[str, str]
) -> None:
    assert syncpod("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(pod("aged"))).code == 0
    document = json.loads(syncpod("get", "pod", "aged", "-o", "json").out)
    created = datetime.fromisoformat(document["metadata"]["creationTimestamp"])
    end_worker(environ)
    end_workflow(environ, "aged")
    assert "its worker will adopt it" in syncpod("adopt", "aged").err
    api = state_of(environ)
    fetched = recorded_creation(api, "pod/default/aged", document["metadata"]["uid"])
    assert datetime.fromisoformat(fetched) == created
    listed = syncpod("get", "pods", "aged").out.splitlines()[1].split()
    assert listed[:4] == ["aged", "?", "Pending?", "0?"] and not listed[4].endswith("?"), "its age is known here"
    assert syncpod("up").code == 0


def test_a_terminated_workflow_is_told_of_before_and_after_the_pod_is_adopted_or_pruned(
    syncpod: Run, environ: dict[str, str]
) -> None:
    assert syncpod("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(pod("ended"))).code == 0
    end_workflow(environ, "ended")
    terminated = re.compile(r"its workflow was terminated by \S+: \S")
    assert terminated.search(syncpod("explain", "ended").out)
    assert re.search(r" workflow +end +terminated +- +- +by ", syncpod("history", "ended").out.splitlines()[-1])
    last = json.loads(syncpod("history", "ended", "-o", "json").out)[-1]
    assert (last["kind"], last["subject"], last["outcome"]) == ("workflow", "end", "terminated")
    planned = syncpod("plan", "-f", "-", stdin=json.dumps(pod("ended")))
    assert re.search(r"the node ends this pod before it starts the new one; `\S+ adopt ended`, in place", planned.err)
    assert re.search(r"^  1\. +kill_pod +- +an earlier pod of this name runs", planned.out, re.MULTILINE), planned
    assert syncpod("adopt", "ended").code == 0
    told, adopted = syncpod("history", "ended").out.splitlines()[1:3]
    assert re.search(r"update +workflow +- .* was terminated at \d{4}-\S+ \S+, by \S+: \S", told), told
    assert re.search(r"update +adopt .*generation 1$", adopted), adopted
    end_workflow(environ, "ended")
    assert syncpod("prune", "ended").code == 0
    after, gone = syncpod("history", "ended").out, syncpod("explain", "ended").out
    assert re.search(r"update +workflow .* was terminated at .*\n.* update +prune", after) and "adopt" not in after
    assert re.search(r"its workflow was terminated at .*\n.* prune\n", gone), gone
    assert "to end its running containers" in syncpod("events", "ended").out


def test_env_leads_to_the_server_while_no_worker_signs(syncpod: Run, environ: dict[str, str]) -> None:
    signing = syncpod("env").out
    assert "export TEMPORAL_CODEC_AUTH=" in signing
    end_worker(environ)
    told = syncpod("env")
    server = json.loads((state_of(environ) / "server.json").read_text())["address"]
    unset, *exported = told.out.splitlines()
    assert (told.code, exported[0]) == (0, f"export TEMPORAL_ADDRESS={server}")
    names = {line.split("=")[0].removeprefix("export ") for line in signing.splitlines() if line.startswith("export")}
    assert names == {*unset.split()[1:], *(line.split("=")[0].removeprefix("export ") for line in exported)}
    assert "so nothing is signed or decrypted, and no query is answered: start it with `" in told.err
    assert syncpod("env", "--workflow", "pod/default/alone").code == 2
    assert syncpod("up").code == 0


async def test_an_orphan_of_the_manifest_directory_is_said_to_get_its_workflow_by_itself(
    syncpod: Run, environ: dict[str, str]
) -> None:
    (Path(environ["MANIFESTS"]) / "static.json").write_text(json.dumps(pod("static")))
    name = f"static-{environ['SYNCPOD_NODE']}"
    await until(lambda: status_of(syncpod, name) == "Running")
    end_workflow(environ, name)
    listed = syncpod("get", "pods").err
    if f"pod {name} runs" in listed:  # the node may have been quicker
        assert "the node gives it one again by itself" in listed
        assert f"prune {name}" not in listed
    await until(lambda: status_of(syncpod, name) == "Running")


def ready_of(syncpod: Run) -> list[str]:
    """The condition Ready as `syncpod node` shows it: its status and its reason."""
    (line,) = (line.split() for line in syncpod("node").out.splitlines() if line.startswith("  Ready "))
    return [line[1], line[3]]


def test_an_image_that_the_embedded_runtime_does_not_have_is_a_warning_at_apply(syncpod: Run) -> None:
    foreign = pod("foreign")
    foreign["spec"]["containers"][0]["image"] = "registry.example/team/app:7"
    applied = syncpod("apply", "-f", "-", stdin=json.dumps(foreign))
    assert applied.out == "pod/foreign created\n"
    said = "Warning: pod foreign: image registry.example/team/app:7: it is not pulled: the embedded runtime has no"
    assert applied.err.startswith(said) and "`syncpod load` on the node" in applied.err
    assert "Warning" not in syncpod("apply", "-f", "-", stdin=json.dumps(foreign)).err, "nothing is made anew"
    assert "Warning" not in syncpod("apply", "-f", "-", stdin=json.dumps(pod("plain"))).err
    assert syncpod("delete", "pods", "foreign", "plain", "--now").code == 0


def test_a_deletion_is_kept_and_not_waited_for_for_ever_while_no_worker_serves_the_node(
    syncpod: Run, environ: dict[str, str]
) -> None:
    applied = syncpod("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(pod("kept")))
    assert applied.code == 0, applied.err
    assert ready_of(syncpod) == ["True", "KubeletReady"]
    end_worker(environ)
    assert ready_of(syncpod) == ["Unknown", "NodeStatusUnknown"]
    done = syncpod("delete", "pod", "kept", "--now")
    assert done.code == 1
    assert 'no worker serves this node, so nothing ends pod "kept" now' in done.err
    assert "the deletion is kept, and continues once the node's worker runs (`syncpod up` there)" in done.err
    assert syncpod("up").code == 0
    gone = syncpod("wait", "pod", "kept", "--for", "delete", "--timeout", "60s")
    assert gone.code == 0, gone.err


def test_down_ends_pods_that_run_without_a_workflow(syncpod: Run, environ: dict[str, str]) -> None:
    applied = syncpod("apply", "-f", "-", "--wait", "--timeout", "60s", stdin=json.dumps(pod("left")))
    assert applied.code == 0, applied.err
    end_worker(environ)
    end_workflow(environ, "left")
    ended = syncpod("down")
    assert ended.code == 0, ended.err
    assert ended.out.count('pod "left" deleted from') == 1
    assert remains(environ) == []


def test_a_node_whose_worker_was_killed_shows_since_when_and_what_it_told_last(
    syncpod: Run, environ: dict[str, str]
) -> None:
    """The last test of this machine: its worker stays away."""
    assert syncpod("up").code == 0
    before = until_ready(syncpod)
    assert "Capacity:\n" in before, before
    worker = read_worker_record(state_of(environ))
    assert worker is not None
    assert syncpod("cordon", worker.node).code == 0
    until_cordoned(environ)
    end_worker(environ)
    told = syncpod("describe", "node", worker.node).out
    assert re.search(rf"^Worker: +{re.escape(worker.identity)}, dead since \d{{4}}-", told, re.MULTILINE), told
    for part in ("Capacity:\n", "Allocatable:\n"):
        assert told.partition(part)[2].split("\n")[0] == before.partition(part)[2].split("\n")[0], told
    assert "Last reported: True, kubelet is posting ready status" in told, told
    assert "NodeNotSchedulable" in told, told


def until_ready(syncpod: Run) -> str:
    """Wait until the node has reported that it is Ready, which it is after its first relist; return its description."""
    deadline = time.monotonic() + 60
    while "kubelet is posting ready status" not in (
        described := syncpod("describe", "nodes").out.partition("Events:")[0]
    ):
        assert time.monotonic() < deadline, described
        time.sleep(0.2)
    return described


def until_cordoned(environ: dict[str, str]) -> None:
    """Wait until the node's last state is on disk."""
    deadline = time.monotonic() + 60
    while recorded_cordon(state_of(environ)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_pod_that_the_killed_worker_had_not_noted_is_not_taken_for_another_nodes(
    syncpod: Run, environ: dict[str, str]
) -> None:
    """Its workflow is this node's; a node without a worker takes no pod, so the workflow stands for one here."""
    worker = read_worker_record(state_of(environ))
    assert worker is not None
    server = json.loads((state_of(environ) / "server.json").read_text())["address"]
    queue = ("--task-queue", f"node/{worker.node}", "--type", "PodWorkflow", "--workflow-id", "pod/default/unnoted")
    start = ("workflow", "start", *queue, "--address", server, "--input", "{}")
    assert run(str(temporal_program()), *start, environ={"TEMPORAL_CONFIG_FILE": os.devnull}).code == 0
    told = syncpod("explain", "unnoted")
    assert told.code == 1 and "it is a pod of this node, whose worker died before it noted it" in told.err, told
    assert "`syncpod up`" in told.err and "another node" not in told.err, told
    end_workflow(environ, "unnoted")
