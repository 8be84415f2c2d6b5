"""Pods that do not answer: the limit of queries, their marks, and answers that do not count as silence."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api.label_selector import Selector
from syncpod.api.listed import RECORDED_ANNOTATION
from syncpod.cli.fetched import FetchedPod, notes_of_silent
from syncpod.cli.temporal import pod_deletion, pod_queries, pod_source
from syncpod.cli.temporal.session import refused
from syncpod.cli.view.rows import row_of
from syncpod.messages.identity import POD_WORKFLOW, pod_workflow_id
from syncpod.node.workflow_snapshots import SNAPSHOT_NAME
from syncpod.pod import ObjectMeta, Pod
from tests.cli.conftest import Command
from tests.cli.manifests import fresh_name


class Listed:
    """A pod's workflow as an entry of a server's list."""

    run_id = "run"
    status = WorkflowExecutionStatus.RUNNING
    start_time = datetime(2026, 11, 22, tzinfo=UTC)
    typed_search_attributes = TypedSearchAttributes.empty

    def __init__(self, number: int, node: str) -> None:
        self.id, self.task_queue = f"pod/default/web-{number}", f"node/{node}"


class Server:
    """A Temporal client of a server whose nodes fail to answer in one way."""

    def __init__(self, status: RPCStatusCode, message: str, listed: list[Listed]) -> None:
        self.error = RPCError(message, status, b"")
        self.listed = listed
        self.asked = self.at_once = self.most = 0

    async def list_workflows(self, *_: Any) -> AsyncIterator[Listed]:
        for each in self.listed:
            yield each

    def get_workflow_handle(self, _: str) -> "Server":
        return self

    async def query(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        raise self.error


async def read(server: Server) -> list[Any]:
    client: Any = server
    return await pod_source.TemporalPods(client).listed(None, Selector(()))


@pytest.fixture(autouse=True)
def no_node_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    async def as_read(_: Any, fetched_pods: list[Any]) -> list[Any]:
        return fetched_pods

    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(pod_source, "judged", as_read)  # whether their workers live is another question


async def test_pods_of_a_node_that_nobody_serves_are_not_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unserved(_: Any) -> str:
        return "node/gone-0"

    monkeypatch.setattr(pod_source, "unserved_queue", unserved)
    server = Server(
        RPCStatusCode.DEADLINE_EXCEEDED, "too late", [Listed(number, f"gone-{number % 2}") for number in (0, 1, 2)]
    )
    fetched_pods = await read(server)
    assert (len(fetched_pods), server.asked) == (3, 1)


async def test_a_limited_number_of_silent_pods_is_queried() -> None:
    listed = [Listed(number, f"gone-{number % 2}") for number in range(3_000)]
    server = Server(RPCStatusCode.DEADLINE_EXCEEDED, "too late", listed)
    fetched_pods = await read(server)
    assert len(fetched_pods) == 3_000 and not any(fetched.current for fetched in fetched_pods)
    assert server.asked <= 1_000 and server.most <= 500


async def test_the_document_of_an_unanswering_pod_is_marked() -> None:
    (fetched,) = await read(Server(RPCStatusCode.UNAVAILABLE, "nobody", [Listed(1, "gone")]))
    assert RECORDED_ANNOTATION in fetched.document["metadata"]["annotations"] and not fetched.stuck


async def test_an_unanswering_pod_is_listed_with_the_status_and_restarts_that_were_recorded_last() -> None:
    listed = Listed(1, "gone")
    listed.typed_search_attributes = TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword("PodPhase"), "Running"),
            SearchAttributePair(SearchAttributeKey.for_keyword("PodStatus"), "CrashLoopBackOff"),
            SearchAttributePair(SearchAttributeKey.for_int("PodRestarts"), 12),
        ]
    )
    (fetched,) = await read(Server(RPCStatusCode.UNAVAILABLE, "nobody", [listed]))
    assert row_of(fetched.listed, datetime.now(UTC)).cells[1:4] == ("?", "CrashLoopBackOff?", "12?")


@pytest.mark.parametrize(
    "words",
    [
        "Workflow is busy.",
        "consistent query buffer is full, this may be caused by …",
        "h2 protocol error: http2 error",
    ],
)
async def test_a_pod_too_busy_for_queries_counts_as_unanswering(words: str) -> None:
    (fetched,) = await read(Server(RPCStatusCode.RESOURCE_EXHAUSTED, words, [Listed(1, "here")]))
    assert not fetched.current and not fetched.stuck


async def test_pods_that_end_are_told_so_and_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent single queries of many pods would keep their node from ending them."""
    ending = [
        FetchedPod(Pod(metadata=ObjectMeta(name=f"web-{at}", namespace="default")), {}, current=True)
        for at in range(120)
    ]
    told, gone = Counter[str](), asyncio.Event()
    reads: list[int] = []

    async def request(*_: Any) -> None:
        told["now"] += 1
        told["most"] = max(told["most"], told["now"])
        await asyncio.sleep(0)
        told["now"] -= 1
        told["all"] += 1

    async def read_all(_: Any, keys: list[Any]) -> list[None]:
        reads.append(len(keys))
        gone.set()
        return [None for _ in keys]

    async def until_gone(*_: Any) -> None:
        await gone.wait()

    monkeypatch.setattr(pod_deletion, "request_deletion", request)
    monkeypatch.setattr(pod_source.TemporalPods, "read_all", read_all)
    monkeypatch.setattr(pod_deletion, "until_gone", until_gone)
    client: Any = None
    await pod_deletion._delete(client, ending, None)
    assert (told["all"], told["most"]) == (120, 50)
    assert reads[0] == 120, "those of this machine's node all at once"


async def test_a_pod_with_failing_tasks_is_not_reported_as_away() -> None:
    words = "Cannot query workflow due to Workflow Task in failed state."
    (fetched,) = await read(Server(RPCStatusCode.FAILED_PRECONDITION, words, [Listed(1, "here")]))
    assert fetched.stuck
    (said,) = notes_of_silent([fetched])
    assert "last task failed or was not answered" in said and "away" not in said


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (RPCStatusCode.PERMISSION_DENIED, "the Temporal server at there:1 does not permit that: no"),
        (RPCStatusCode.UNAUTHENTICATED, "the Temporal server at there:1 does not accept your credentials: no"),
        (
            RPCStatusCode.RESOURCE_EXHAUSTED,
            "the Temporal server at there:1 has too much to do; try again later: no",
        ),
        (RPCStatusCode.INTERNAL, "the Temporal server at there:1 fails: no"),
    ],
)
async def test_a_server_error_does_not_count_as_an_unanswering_pod(status: RPCStatusCode, sentence: str) -> None:
    with pytest.raises(RPCError) as error:
        await read(Server(status, "no", [Listed(1, "here")]))
    assert str(refused(error.value, "there:1")) == sentence


async def test_a_silent_pod_of_this_machine_is_printed_as_it_told_its_node_last(tmp_path: Path) -> None:
    listed = Listed(1, "gone")
    listed.typed_search_attributes = TypedSearchAttributes(
        [SearchAttributePair(SearchAttributeKey.for_keyword("PodUID"), "u-1")]
    )
    (fetched,) = await read(Server(RPCStatusCode.UNAVAILABLE, "nobody", [listed]))
    assert pod_queries.with_last_state(fetched) is fetched, "nothing is known of it here"
    pod = {"metadata": {"name": "web-1", "namespace": "default", "uid": "u-1"}, "spec": {"containers": []}}
    snapshot = {"snapshot": {"pod": pod, "status": {"podIP": "127.0.0.9"}}}
    directory = tmp_path / "pods" / "u-1"
    directory.mkdir(parents=True)
    for of in ("pod/default/web-2", "pod/default/web-1"):
        (directory / SNAPSHOT_NAME).write_text(json.dumps({"workflow_id": of, "next_input": snapshot}))
        told = pod_queries.with_last_state(fetched)
        assert ("podIP" in told.document.get("status", {})) is (of == "pod/default/web-1")
    assert RECORDED_ANNOTATION in told.document["metadata"]["annotations"] and not told.current
    assert told.document["status"] == {"podIP": "127.0.0.9"} and told.document["kind"] == "Pod"
    (directory / SNAPSHOT_NAME).write_text("{")
    assert pod_queries.with_last_state(fetched) is fetched


async def test_fields_of_a_pod_of_which_little_is_known_are_no_success(syncpod: Command, client: Client) -> None:
    name = fresh_name()
    handle = await client.start_workflow(
        POD_WORKFLOW, {}, id=pod_workflow_id("default", name), task_queue="node/nowhere"
    )
    try:
        done = await syncpod("get", "pod", name, "-o", "jsonpath={.status.podIP}")
        assert (done.code, done.out) == (1, "")
        assert f'syncpod: pod "{name}" does not answer: node nowhere is away' in done.err
    finally:
        await handle.terminate()
