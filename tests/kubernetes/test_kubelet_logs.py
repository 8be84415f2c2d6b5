"""`/containerLogs` at the kubelet's port: the chosen log, its range, and the messages if there is none."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from syncpod.api.statuses import ApiError
from syncpod.api.wanted_log import instance
from tests.agent.waiting import until
from tests.hung_disk import hung_disk
from tests.kubernetes.kubelet_port import Node, chunks, node
from tests.node.test_log_lines import record

LOGS = "/containerLogs/default/web/app"


def pod_with(state: dict[str, Any], last: dict[str, Any] | None = None, *, id_: str = "", restarts: int = 0) -> Any:
    status = {
        "name": "app",
        "state": state,
        "lastState": last or {},
        "restartCount": restarts,
        **({"containerID": id_} if id_ else {}),
    }
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
        "spec": {"initContainers": [{"name": "first"}], "containers": [{"name": "app"}]},
        "status": {"containerStatuses": [status]},
    }


@pytest_asyncio.fixture
async def n1(tmp_path: Path) -> AsyncIterator[Node]:
    """A node with a pod whose second instance runs."""
    async with node(tmp_path) as found:
        ended = {"terminated": {"containerID": "x://c0", "exitCode": 1}}
        found.pods.pods.append(pod_with({"running": {}}, ended, id_="x://c1", restarts=1))
        for number in (0, 1):
            path = tmp_path / f"{number}.log"
            lines = [record(f"line {number}.{each}", stamp=f"2026-01-31T12:00:0{each}Z") for each in range(3)]
            lines.append(record("oops", stream="stderr", stamp="2026-01-31T12:00:03Z"))
            path.write_bytes(b"".join(lines))
            state = "running" if number else "exited"
            found.runtime.containers[f"c{number}"] = SimpleNamespace(state=state, log_path=str(path))
        yield found


async def text(n1: Node, query: str = "") -> str:
    answered = await n1.ask(f"{LOGS}?{query}", pair=n1.master)
    assert answered.code == 200 and answered.headers["content-type"] == "text/plain"
    return answered.text


async def test_the_log_is_read_as_far_as_it_is_asked_for(n1: Node) -> None:
    whole = "line 1.0\nline 1.1\nline 1.2\noops\n"
    for query, expected in (
        ("", whole),
        ("follow=false", whole),
        ("tailLines=2", "line 1.2\noops\n"),
        ("tail=all", whole),
        ("tail=1", "oops\n"),
        ("tailLines=0", ""),
        ("limitBytes=10", "line 1.0\nl"),
        ("sinceTime=2026-01-31T12:00:02Z", "line 1.2\noops\n"),
        ("sinceSeconds=1", ""),
        ("sinceSeconds=99999999999999", whole),
        ("timestamps=true&tailLines=1", "2026-01-31T12:00:03Z oops\n"),
        ("stream=Stderr", "oops\n"),
        ("stream=Stdout&limitBytes=9", "line 1.0\n"),
        ("stream=All&tailLines=1", "oops\n"),
        ("previous=true&tailLines=2", "line 0.2\noops\n"),
    ):
        assert await text(n1, query) == expected, query


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)


async def test_a_log_is_followed_until_its_container_ends(n1: Node) -> None:
    reader, writer = await n1.connect(n1.master)
    writer.write(f"GET {LOGS}?follow=true&tailLines=1 HTTP/1.1\r\nHost: n1\r\n\r\n".encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    path = Path(n1.runtime.containers["c1"].log_path)
    coming = aiter(chunks(reader))
    assert await anext(coming) == b"oops\n"
    for word in ("one", "two"):
        _append(path, record(word))
        assert await anext(coming) == f"{word}\n".encode()
    n1.runtime.containers["c1"].state = "exited"
    assert [each async for each in coming] == []
    writer.close()


async def test_a_follower_is_answered_before_there_is_a_line(n1: Node) -> None:
    empty = n1.directory / "empty.log"
    await asyncio.to_thread(empty.touch)
    n1.runtime.containers["c1"].log_path = str(empty)
    reader, writer = await n1.connect(n1.master)
    writer.write(f"GET {LOGS}?follow=true HTTP/1.1\r\nHost: n1\r\n\r\n".encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


async def test_a_follower_who_has_gone_is_followed_for_no_longer(n1: Node) -> None:
    reader, writer = await n1.connect(n1.master)
    writer.write(f"GET {LOGS}?follow=true HTTP/1.1\r\nHost: n1\r\n\r\n".encode())
    await reader.readuntil(b"line 1.0")
    writer.transport.abort()
    listener = n1.port.listener
    assert listener is not None
    await until(lambda: listener._open == 0)
    await until(lambda: not any("_handle_request" in repr(task.get_coro()) for task in asyncio.all_tasks()))


async def test_the_log_of_a_container_that_the_runtime_has_removed_is_read_from_its_file(n1: Node) -> None:
    path = n1.directory / "default_web_u1" / "app" / "0.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(record("kept"))
    del n1.runtime.containers["c0"]
    assert await text(n1, "previous=true") == "kept\n"
    path.unlink()
    answered = await n1.ask(f"{LOGS}?previous=true", pair=n1.master)
    assert (answered.code, answered.text) == (400, "unable to retrieve container logs for x://c0")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("tailLines=x", 400),
        ("tailLines=-1", 422),
        ("limitBytes=0", 422),
        ("sinceSeconds=0", 422),
        ("sinceSeconds=1&sinceTime=2026-01-31T12:00:02Z", 422),
        ("sinceTime=yesterday", 400),
        ("sinceTime=2026-01-31T12:00:02", 400),
        ("stream=stdout", 422),
        ("stream=Stdout&tailLines=1", 422),
    ],
)
async def test_what_makes_no_sense_is_refused(n1: Node, query: str, code: int) -> None:
    answered = await n1.ask(f"{LOGS}?{query}", pair=n1.master)
    assert answered.code == code and "message" in json.loads(answered.text)


async def test_a_pod_or_container_that_there_is_not_is_named(n1: Node) -> None:
    for path, said in (
        ("/containerLogs/default/other/app", 'pod "other" does not exist'),
        ("/containerLogs/elsewhere/web/app", 'pod "web" does not exist'),
        ("/containerLogs/default/web/x", 'container "x" not found in pod "web"'),
    ):
        answered = await n1.ask(path, pair=n1.master)
        assert (answered.code, answered.text) == (404, said)
    answered = await n1.ask("/containerLogs/default/web/first", pair=n1.master)
    assert (answered.code, answered.text) == (400, 'container "first" in pod "web" is not available')


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
async def test_a_log_on_a_disk_that_hangs_holds_up_nothing_else(n1: Node, tmp_path: Path) -> None:
    other = pod_with({"running": {}}, id_="x://c0")
    other["metadata"] |= {"name": "other", "uid": "u2"}
    n1.pods.pods.append(other)
    with hung_disk(tmp_path / "hung") as disk:
        n1.runtime.containers["c1"].log_path = str(disk / "1.log")
        hung = asyncio.create_task(n1.ask(LOGS, pair=n1.master))
        await until(lambda: any(thread.name == "show_logs u1" for thread in threading.enumerate()))
        assert (await n1.ask("/healthz", pair=n1.master)).code == 200
        answered = await n1.ask("/containerLogs/default/other/app?tailLines=1", pair=n1.master)
        assert answered.text == "oops\n"
        assert not hung.done()
    assert (await hung).text.startswith("failed to ")


WAITING = {"waiting": {"reason": "ImagePullBackOff"}}
NAMED = 'container "app" in pod "web"'


@pytest.mark.parametrize(
    ("pod", "previous", "expected"),
    [
        (pod_with({"running": {}}, id_="x://1", restarts=3), False, ("x://1", 3)),
        (pod_with({"terminated": {"containerID": "x://1"}}, id_="x://1"), False, ("x://1", 0)),
        (pod_with({"terminated": {}}, {"terminated": {"containerID": "x://0"}}, restarts=1), False, ("x://0", 0)),
        (pod_with(WAITING, {"terminated": {"containerID": "x://0"}}, id_="x://0", restarts=2), False, ("x://0", 2)),
        (pod_with({"running": {}}, {"terminated": {"containerID": "x://0"}}, restarts=2), True, ("x://0", 1)),
        (pod_with({"running": {}}), True, f"previous terminated {NAMED} not found"),
        (pod_with({"terminated": {}}), False, f"{NAMED} is terminated"),
        (pod_with(WAITING, {"terminated": {"exitCode": 1}}), False, f"{NAMED} is terminated"),
        (pod_with(WAITING), False, f"{NAMED} is waiting to start: trying and failing to pull image"),
        (
            pod_with({"waiting": {"reason": "ErrImagePull"}}),
            False,
            f"{NAMED} is waiting to start: image can't be pulled",
        ),
        (
            pod_with({"waiting": {"reason": "ContainerCreating"}}),
            False,
            f"{NAMED} is waiting to start: ContainerCreating",
        ),
        (pod_with({}), False, f"{NAMED} is waiting to start - no logs yet"),
    ],
)
def test_the_instance_and_the_words_are_the_kubelets(pod: Any, previous: bool, expected: Any) -> None:
    if isinstance(expected, str):
        with pytest.raises(ApiError) as refused:
            instance(pod, "app", previous=previous)
        assert (refused.value.code, refused.value.message) == (400, expected)
    else:
        found = instance(pod, "app", previous=previous)
        assert (found.id, found.restart) == expected
