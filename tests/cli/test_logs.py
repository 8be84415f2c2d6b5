"""The flags of `logs`, and logs of several containers at once, without a runtime."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest
from temporalio.client import Client

from syncpod.cli.commands import logs
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.log_request import LogManner
from syncpod.cli.machine import containers
from syncpod.cli.streams import log_printer
from syncpod.cli.streams.log_printer import LogPrinter
from syncpod.cli.temporal import pod_queries
from syncpod.journal.file import FILE_NAME, JournalFile, Limits
from syncpod.journal.records import Instance, PodLife, TaskRecords
from syncpod.lifecycle.exit import Exit
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.pod import Pod, parse_pod
from tests.cli.conftest import Command, program
from tests.cli.manifests import fresh_name, manifest
from tests.node.test_log_lines import record


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--tail", "-2"), "--tail: must be 0 or more lines"),
        (("--limit-bytes", "-1"), "--limit-bytes: must be 0 or more bytes"),
        (("--max-log-requests", "0"), "--max-log-requests: must be 1 or more"),
        (("-c", "a", "--all-containers"), "either --container or --all-containers"),
    ],
)
def test_wrong_flags_are_refused_in_a_sentence(flags: Sequence[str], sentence: str) -> None:
    refused = program("logs", "web", *flags)
    assert (refused.code, refused.out) == (2, "")
    assert sentence in refused.err


@pytest.mark.parametrize(
    ("words", "container"), [(["web"], ""), (["pod", "web"], ""), (["pod/web"], ""), (["web", "app"], "app")]
)
def test_a_pod_is_named_with_its_kind_or_before_its_container(words: list[str], container: str) -> None:
    given, conditions = logs._checked(logs.LogsOptions(words), "syncpod")
    assert (logs._pod(given, conditions), given.container) == ("web", container)


class Runtime:
    """A runtime that knows the paths of logs, without running containers."""

    async def __aenter__(self) -> Runtime:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def container_status(self, id: str) -> SimpleNamespace:
        return SimpleNamespace(container=SimpleNamespace(id=id, state="exited"))


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    """A pod whose containers `a` and `b` have run; only `b` has a log."""
    (tmp_path / "b.log").write_bytes(record("one") + record("two", stream="stderr"))
    (tmp_path / "b.log.20260131-120000").write_bytes(record("zero"))

    async def log_path(_pod: Pod, container: str, *_: Any) -> Path:
        return tmp_path / f"{container}.log"

    monkeypatch.setattr(log_printer, "_log_path", log_path)
    monkeypatch.setattr(log_printer, "runtime_of", lambda _: Runtime())
    ended = {"terminated": {"exitCode": 0, "containerID": "x://1"}}
    return parse_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": name, "image": "busybox:1"} for name in "ab"]},
            "status": {
                "containerStatuses": [
                    {
                        "name": name,
                        "state": ended,
                        "lastState": ended,
                        "restartCount": 1,
                        "image": "",
                        "imageID": "",
                        "ready": False,
                    }
                    for name in "ab"
                ]
            },
        },
        strict=False,
    )


def printer(**given: Any) -> Any:
    usual = {
        **{"follow": False, "previous": False, "tail": None, "since": None, "rotated": False, "limit_bytes": None},
        **{"timestamps": False, "prefix": False, "ignore_errors": False},
    }
    return LogPrinter(LogManner(**(usual | given)))


def test_a_container_that_a_failed_pod_never_started_has_no_log() -> None:
    unknown = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    failed = parse_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "late"},
            "spec": {"containers": [{"name": "app", "image": "busybox:1"}]},
            "status": {
                "phase": "Failed",
                "reason": "DeadlineExceeded",
                "containerStatuses": [
                    {"name": "app", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": unknown}
                ],
            },
        }
    )
    with pytest.raises(Failure, match=r'^container "app" in pod "late" has never run: .*DeadlineExceeded'):
        containers.current_instance(failed, "app")


def test_an_unreadable_log_does_not_keep_others_from_being_printed(
    pod: Pod, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    both = [(pod, "a", None), (pod, "b", None)]
    with pytest.raises(Failure, match='the log of container "a" is gone'):
        asyncio.run(printer().print_all(both))
    asyncio.run(printer(ignore_errors=True, prefix=True).print_all(both))
    sys.stdout.flush()
    out, err = capfdbinary.readouterr()
    assert out == b"one\ntwo\n[pod/web/b] one\n[pod/web/b] two\n"
    assert err.count(b'the log of container "a" is gone') == 1


def test_rotated_logs_are_read_up_to_the_limit(pod: Pod, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Row 114: only the growing file, unless more is requested, and no more bytes than requested."""
    for given in ({}, {"rotated": True}, {"rotated": True, "tail": 2}, {"limit_bytes": 5}):
        asyncio.run(printer(**given).print_all([(pod, "b", None)]))
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\n--\n")
    sys.stdout.flush()
    assert capfdbinary.readouterr().out.split(b"\n--\n")[:4] == [
        b"one\ntwo\n",
        b"zero\none\ntwo\n",
        b"one\ntwo\n",
        b"one\nt",
    ]


def test_following_an_ended_instance_prints_it_and_ends(pod: Pod, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Row 114: `logs -f -p` prints and ends, as for kubectl."""
    asyncio.run(printer(follow=True, previous=True).print_all([(pod, "b", None)]))
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b"one\ntwo\n"


async def test_logs_are_read_without_a_workflow_that_answers(
    syncpod: Command, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest instance's file is found by the node's record of the pod."""
    monkeypatch.setattr(pod_queries, "QUERY_DEADLINE", timedelta(seconds=0.3))
    monkeypatch.setenv("SYNCPOD_LOG_DIR", str(tmp_path / "pods"))
    monkeypatch.setenv("SYNCPOD_NODE", "gone")
    name = fresh_name()
    described = manifest(name)
    described["metadata"] |= {"uid": "1", "namespace": "default"}
    directory = tmp_path / "state" / "pods" / "1"
    directory.mkdir(parents=True)
    (directory / "pod.json").write_text(json.dumps({"pod": described}))
    handle = await client.start_workflow(POD_WORKFLOW, id=f"pod/default/{name}", task_queue="node/gone")
    try:
        unwritten = await syncpod("logs", name)
        assert (unwritten.code, unwritten.out) == (1, "")
        assert f'no log of container "app" in pod "{name}"' in unwritten.err
        logs_of_app = tmp_path / "pods" / f"default_{name}_1" / "app"
        logs_of_app.mkdir(parents=True)
        for file, text in {"9.log": "nine", "10.log": "ten", "10.log.20260131-120000": "before"}.items():
            (logs_of_app / file).write_bytes(record(text))
        newest = await syncpod("logs", name, "--tail", "1")
        assert (newest.code, newest.out) == (0, "ten\n")
        assert "node gone is away" in newest.err and f"read from {tmp_path / 'pods'}" in newest.err
        assert (await syncpod("logs", name, "-f", "--previous")).out == "nine\n"
        assert (await syncpod("logs", name, "--rotated")).out == "before\nten\n"
        (logs_of_app / "11.log").touch()
        assert (await syncpod("logs", name)).code == 0, "it ran, as far as is known"
        refused = Instance("app", 11, exit=Exit(exit_code=128, reason="StartError", message="no sh"))
        journal = JournalFile(Path(os.environ["SYNCPOD_STATE_DIR"]) / FILE_NAME, Limits())
        journal.write([TaskRecords(PodLife("default", name, "1"), datetime.now(UTC), instances=(refused,))])
        journal.close()
        none = await syncpod("logs", name)
        assert (none.code, none.out) == (1, "") and "could not be started, so it has no log: no sh" in none.err
        unknown = await syncpod("logs", name, "-c", "none")
        assert (unknown.code, unknown.out) == (1, "")
        (directory / "pod.json").unlink()
        unnoted = await syncpod("logs", name)
        assert (unnoted.code, unnoted.err.count("does not answer")) == (1, 1)
    finally:
        await handle.terminate()


def test_since_zero_prints_from_the_beginning() -> None:
    assert logs._since("0s", None) is None and logs._since("0", None) is None
    assert logs._since("1s", None) is not None and logs._since(None, None) is None
    for empty in (("", None), (None, "")):
        with pytest.raises(BadInput, match=r"--since.*''"):
            logs._since(*empty)


def test_the_note_on_a_default_lists_main_containers_first(capsys: pytest.CaptureFixture[str]) -> None:
    names = {"initContainers": ("i", "side"), "containers": ("c", "d"), "ephemeralContainers": ("e",)}
    spec = {kind: [{"name": each, "image": "busybox:1"} for each in several] for kind, several in names.items()}
    web = Pod.model_validate({"metadata": {"name": "web"}, "spec": spec})
    assert containers.chosen_container(web, "") == "c"
    assert capsys.readouterr().err == 'Defaulted container "c" out of: c, d, e (ephem), i (init), side (init)\n'
    for marked, chosen, is_noted in (("side", "side", False), ("nosuch", "c", True)):
        web.metadata.annotations[containers.DEFAULT_CONTAINER] = marked
        assert containers.chosen_container(web, "") == chosen
        assert capsys.readouterr().err.startswith("Defaulted") == is_noted, "as kubectl: the annotation is no default"
    with pytest.raises(Failure, match='container "nosuch" is not in pod "web"') as failed:
        containers.chosen_container(web, "nosuch")
    assert failed.value.code == 1, "as of a pod that is not there"


def test_logs_of_a_rejected_pod_say_that_it_never_ran_and_why() -> None:
    rejected = Pod.model_validate(
        {
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "app", "image": "busybox:1"}]},
            "status": {"phase": "Failed", "reason": "OutOfmemory", "message": "Pod was rejected: no room"},
        }
    )
    with pytest.raises(Failure, match="never run: the pod has failed: OutOfmemory: Pod was rejected: no room"):
        containers.current_instance(rejected, "app")


@pytest.mark.parametrize(
    ("state", "previous", "sentence"),
    [
        ({"waiting": {"reason": "CrashLoopBackOff"}}, False, "is waiting to start: CrashLoopBackOff: no sh"),
        ({"waiting": {"reason": "RunContainerError"}}, False, "is waiting to start: RunContainerError: no sh"),
        ({"running": {}}, True, "could not be started: no sh"),
        ({"terminated": {"reason": "StartError", "message": "no sh"}}, False, "could not be started: no sh"),
        ({"running": {}}, False, ""),
    ],
)
async def test_logs_of_a_container_that_cannot_be_started_say_why_there_are_none(
    state: dict[str, Any], previous: bool, sentence: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    ended = {"reason": "StartError", "message": "no sh", "containerID": "x://1"}
    status = {"name": "app", "containerID": "x://1", "state": state, "lastState": {"terminated": ended}}
    pod = Pod.model_validate(
        {
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "app", "image": "busybox:1"}]},
            "status": {"containerStatuses": [status]},
        }
    )
    log = tmp_path / "0.log"
    with (
        patch.object(log_printer, "_log_path", AsyncMock(return_value=log)),
        patch.object(log_printer, "runtime_of", lambda _: AsyncMock()),
    ):
        prints = printer(previous=previous)
        for empty in (log.touch, log.unlink):
            log.touch()
            empty()
            if sentence:
                with pytest.raises(Failure, match=f'container "app" in pod "web" {sentence}') as failed:
                    await prints._print_instance(pod, "app")
                assert failed.value.code == 1
        log.write_bytes(record("it ran after all"))
        await prints._print_instance(pod, "app")
        sys.stdout.flush()
        assert capfdbinary.readouterr().out == b"it ran after all\n"
