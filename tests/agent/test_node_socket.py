"""Reads of a node's pods are answered on its socket, to its own user only."""

import asyncio
import stat
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from syncpod.agent.node_socket import NodeSocket
from syncpod.agent.open_pods import OpenPods, OpenPodsUnknown
from syncpod.agent.probing.untold import UntoldFailures
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.unattended_pods import UnattendedPods
from syncpod.lifecycle.observed import ObservedPod, ObservedSandbox, SandboxState
from syncpod.messages.identity import PodRef
from syncpod.node import read_socket
from syncpod.node.orphan_mark import why_orphaned
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.read_socket import (
    DESCRIBED,
    HEARD,
    SOCKET_NAME,
    STEPS,
    PublishedAnswer,
    ask_known,
    ask_listed,
    ask_node,
    ask_open,
    ask_open_by_workflow,
    socket_address,
)
from syncpod.node.tombstones import write_tombstone
from syncpod.node.workflow_snapshots import SNAPSHOT_NAME
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory
from tests.agent.published import OfNoPod
from tests.agent.waiting import until


@dataclass(frozen=True)
class Shown(OfNoPod):
    """What a workflow has published."""

    uid: str = "uid-web"
    at: datetime = datetime(2026, 11, 22, tzinfo=UTC)
    history_length: int = 7
    is_gone: bool = False
    is_unready: bool = False

    def told(self, since: datetime | None) -> None: ...

    def glance(self) -> None: ...

    def answer(self, query: str, *args: Any) -> Any:
        if query == "events":
            return []
        if query != "pod":
            raise KeyError(query)
        return {"metadata": {"uid": self.uid}, "asked": list(args), "text": "ü" * 200_000}

    def next_input(self) -> dict[str, Any]:
        return {"snapshot": {"incarnation": "i"}, "decisions": 1}


@dataclass
class Pulling:
    """A step that is under way."""

    ref: PodRef
    name: str = "pull_image"
    container: str = "app"
    telling: str = "waits for other pulls to pull web:1"


class Listed:
    """A pod's workflow as the server lists it."""

    task_queue = "node/n"
    start_time = datetime(2026, 11, 22, tzinfo=UTC)
    typed_search_attributes = TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword("PodStatus"), "CrashLoopBackOff"),
            SearchAttributePair(SearchAttributeKey.for_int("PodRestarts"), 12),
        ]
    )

    def __init__(self, workflow_id: str, run_id: str) -> None:
        self.id, self.run_id = workflow_id, run_id


class Server(OpenPods):
    """What the server says of open pods."""

    def __init__(self) -> None:
        self.runs: dict[str, str] | None = {}
        self.open: dict[str, str] = {}
        """The runs that are found when workflows are asked for one by one."""
        self.looks = 0
        self.elsewhere: set[str] = set()
        self.listings: list[ObservedPod] = []
        """What the node has in its runtime."""

    async def listed(self, namespace: str | None) -> dict[str, Any]:
        if self.runs is None:
            raise OpenPodsUnknown
        of = f"pod/{namespace or ''}"
        return {each: Listed(each, run) for each, run in self.runs.items() if each.startswith(of)}

    def are_ours(self, executions: Iterable[Any]) -> bool:
        return not self.elsewhere & {each.id for each in executions}

    async def still_open(self, workflow_ids: Sequence[str]) -> dict[str, str]:
        self.looks += 1
        if self.elsewhere & set(workflow_ids):
            raise OpenPodsUnknown
        return {each: self.open[each] for each in workflow_ids if each in self.open}

    async def named(self, namespace: str, names: Sequence[str]) -> dict[str, str]:
        found = await self.listed(namespace)
        return {each: listed.run_id for each, listed in found.items() if each.rpartition("/")[2] in names}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest_asyncio.fixture
async def node(tmp_path: Path, server: Server) -> AsyncIterator[tuple[NodeContext, PublishedPods]]:
    state = tmp_path / ("deep" * 20) / ("deeper" * 20)  # longer than an address of a unix socket may be
    state.mkdir(parents=True, mode=0o700)
    context = NodeContext(name="n", state_dir=state, memory_dir=tmp_path, log_dir=tmp_path, cluster="c/n")
    published = PublishedPods(context)
    failures = UntoldFailures("web", "Liveness probe failed: no", 3, datetime(2026, 11, 22, tzinfo=UTC))
    steps = [Pulling(PodRef(name="web", namespace="default", uid=uid)) for uid in ("uid-web", "of an earlier life")]
    socket = NodeSocket(
        state,
        published,
        open_pods=server,
        untold=lambda uid: [failures] if uid == "uid-web" else [],
        unattended=UnattendedPods(context, lambda: server.listings, server),
        running=steps,
    )
    serving = asyncio.create_task(socket.run())
    await until((state / SOCKET_NAME).exists)
    yield context, published
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_known_state_is_returned_with_its_run(node: tuple[NodeContext, PublishedPods]) -> None:
    context, published = node
    many = [f"pod/default/web-{number}" for number in range(120)]
    for workflow_id in many:
        published.take(workflow_id, f"run of {workflow_id}", Shown())
    told = await ask_node(context.state_dir, "pod", ["x"], [*many, "pod/default/unknown"])
    assert list(told) == many
    answer = {"metadata": {"uid": "uid-web"}, "asked": ["x"], "text": "ü" * 200_000}
    assert told[many[-1]] == PublishedAnswer(f"run of {many[-1]}", answer)

    assert await ask_node(context.state_dir, "no such query", [], many) == {}
    events = (await ask_node(context.state_dir, "events", [], many[:1]))[many[0]].answer
    assert [event["count"] for event in events] == [3], "the failures that the workflow does not know of"
    published.take(many[0], "run", Shown(is_gone=True))
    assert list(await ask_node(context.state_dir, "pod", [], many[:2])) == many[1:2]


def listing(name: str, uid: str, *, ready: bool = True) -> ObservedPod:
    state: SandboxState = "SANDBOX_READY" if ready else "SANDBOX_NOTREADY"
    return ObservedPod(uid=uid, name=name, namespace="default", sandboxes=(ObservedSandbox(id=uid, state=state),))


async def test_a_pod_that_runs_without_a_workflow_is_told_with_a_mark(
    node: tuple[NodeContext, PublishedPods], server: Server
) -> None:
    """Somebody has terminated its workflow. One that the server merely does not list yet is no such pod."""
    context, published = node
    for name in ("web", "old", "new"):
        published.take(f"pod/default/{name}", "run", Shown())
    server.runs, server.open = {"pod/default/web": "run"}, {"pod/default/new": "run"}
    server.listings = [
        listing("web", "uid-web"),
        listing("old", "uid-web"),
        listing("new", "uid-web"),
        listing("dead", "uid-dead", ready=False),
        listing("after-a-restart", "uid-5"),
        listing("deleted", "uid-6"),
    ]
    (context.state_dir / "pods" / "uid-6").mkdir(parents=True)
    write_pod_record(context, PodRecord(pod=Pod.model_validate({"metadata": {"uid": "uid-6"}}), incarnation="life"))
    write_tombstone(context, "uid-6", "life")
    told = await asyncio.to_thread(ask_open_by_workflow, context.state_dir, "pod", "default", [])
    assert told is not None
    assert {each: bool(why_orphaned(pod)) for each, pod in told.items()} == {
        "pod/default/web": False,
        "pod/default/old": True,
        "pod/default/after-a-restart": True,
    }
    assert told["pod/default/old"]["text"], "what its workflow told last"
    plans = await asyncio.to_thread(ask_open_by_workflow, context.state_dir, "plan", "default", ["after-a-restart"])
    assert plans is not None and plans["pod/default/after-a-restart"]["holds"] == []
    whole = await asyncio.to_thread(ask_open_by_workflow, context.state_dir, DESCRIBED, "default", ["after-a-restart"])
    assert whole is not None and why_orphaned(whole["pod/default/after-a-restart"]["pod"])


async def test_what_the_steps_under_way_do_is_told_without_the_server(
    node: tuple[NodeContext, PublishedPods], server: Server
) -> None:
    context, published = node
    server.runs = None
    published.take("pod/default/web", "run", Shown())
    published.take("pod/default/db", "run", Shown(uid="uid-db"))
    asked = [("default", "web"), ("default", "db"), ("default", "unknown")]
    (web,), db = await asyncio.to_thread(ask_known, context.state_dir, STEPS, asked)
    assert web == {
        "uid": "uid-web",
        "step": "pull_image",
        "container": "app",
        "doing": "waits for other pulls to pull web:1",
    }
    assert db == []
    assert ask_known(context.state_dir / "missing", STEPS, asked) == []


async def test_all_open_pods_are_told_or_none(node: tuple[NodeContext, PublishedPods], server: Server) -> None:
    context, published = node

    async def uids(namespace: str | None, *names: str) -> list[str] | None:
        told = await asyncio.to_thread(ask_open, context.state_dir, "pod", namespace, names)
        return None if told is None else [one["metadata"]["uid"] for one in told]

    assert await uids(None) == [] == await uids("default", "web")
    for name in ("default/web", "default/db", "other/web"):
        published.take(f"pod/{name}", f"run of {name}", Shown(uid=name))
    server.runs = {f"pod/{name}": f"run of {name}" for name in ("default/web", "other/web")}
    assert await uids(None) == ["default/web", "other/web"], "of a pod that is not open nothing is told"
    assert await uids("default") == ["default/web"]
    assert await uids("default", "web", "db", "nobody") == ["default/web"]

    server.runs["pod/default/elsewhere"] = "a run of another node's pod"
    server.elsewhere.add("pod/default/elsewhere")
    assert await uids("default") is None
    assert await uids("other") == ["other/web"]
    server.runs = server.open = {"pod/default/web": "a later run, which has published nothing yet"}
    assert await uids("default", "web") is None
    server.runs = None
    assert await uids(None) is None


async def test_pods_to_which_a_worker_has_not_come_are_listed_as_they_were_recorded(
    node: tuple[NodeContext, PublishedPods], server: Server
) -> None:
    """Each one's workflow would be replayed for a query, while the worker is about to replay all of them."""
    context, published = node
    published.take("pod/default/web", "run", Shown())
    server.runs = {"pod/default/web": "run", **{f"pod/default/late-{each}": "run" for each in range(60)}}
    listed = await asyncio.to_thread(ask_listed, context.state_dir, None, ())
    assert listed is not None and len(listed) == 61
    assert [columns for pod, columns in listed if pod["metadata"].get("uid") == "uid-web"] == [None]
    late, columns = listed[-1]
    assert (late["metadata"]["name"], late["spec"]["nodeName"]) == ("late-59", "n")
    assert columns == {"status": "CrashLoopBackOff", "restarts": 12}
    assert await asyncio.to_thread(ask_open, context.state_dir, "pod", None, ()) is None, "who needs all of each"
    server.elsewhere.add("pod/default/late-7")
    assert await asyncio.to_thread(ask_listed, context.state_dir, None, ()) is None, "its own node knows it"


async def test_a_pod_that_has_just_ended_or_begun_does_not_keep_the_others_from_being_told(
    node: tuple[NodeContext, PublishedPods], server: Server
) -> None:
    context, published = node
    published.take("pod/default/web", "run", Shown(uid="web"))
    server.runs = {"pod/default/web": "run", "pod/default/ended": "run", "pod/default/begun": "run"}
    server.open = {"pod/default/begun": "run"}
    telling = asyncio.create_task(asyncio.to_thread(ask_open, context.state_dir, "pod", "default", ()))
    await until(lambda: server.looks > 0)
    published.take("pod/default/begun", "run", Shown(uid="begun"))
    told = await telling
    assert told is not None and [one["metadata"]["uid"] for one in told] == ["web", "begun"]
    looks = server.looks
    server.runs = {f"pod/default/{number}": "run" for number in range(51)}
    assert await asyncio.to_thread(ask_open, context.state_dir, "pod", "default", ()) is None
    assert server.looks == looks, "so many are not asked for one by one"


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_worker_that_has_heard_is_given_more_time_than_one_that_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_heard: bool
) -> None:
    """Of both times, the one that must not count is so long that the test would fail."""
    monkeypatch.setattr(read_socket, "PATIENCE_SECONDS", 600.0 if is_heard else 0.05)
    monkeypatch.setattr(read_socket, "ANSWER_SECONDS", 0.05 if is_heard else 600.0)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(HEARD if is_heard else b"")
        await reader.read()  # until it is given up
        writer.close()

    with socket_address(tmp_path) as address:
        serving = await asyncio.start_unix_server(silent, address)
    async with serving:
        assert await asyncio.to_thread(ask_open, tmp_path, "pod", None, ()) is None
        assert await ask_node(tmp_path, "pod", [], ["pod/default/web"]) == {}


async def test_an_answer_that_breaks_off_is_none(node: tuple[NodeContext, PublishedPods], server: Server) -> None:
    context, published = node
    published.take("pod/default/web", "run", Shown())
    server.runs = {"pod/default/web": "run"}
    assert await asyncio.to_thread(ask_open, context.state_dir, "no such query", None, ()) is None
    assert ask_open(context.state_dir / "missing", "pod", None, ()) is None


async def test_only_the_workers_user_may_use_the_socket(node: tuple[NodeContext, PublishedPods]) -> None:
    mode = (node[0].state_dir / SOCKET_NAME).stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600


async def test_an_invalid_request_closes_only_its_own_connection(node: tuple[NodeContext, PublishedPods]) -> None:
    context, published = node
    published.take("pod/default/web", "run", Shown())
    for line in (
        b"nonsense\n",
        b"[]\n",
        b'{"query": 1}\n',
        b'{"query": "pod", "args": 3, "workflows": 4}\n',
        b'{"query": "pod", "args": [], "open": 5}\n',
        b"",
    ):
        with socket_address(context.state_dir) as address:
            reader, writer = await asyncio.open_unix_connection(address)
        writer.write(line)
        writer.write_eof()
        assert (await reader.read()).removeprefix(HEARD) == b""
        writer.close()
    assert await ask_node(context.state_dir, "pod", [], ["pod/default/web"])


async def test_without_a_worker_the_socket_gives_no_answer(tmp_path: Path) -> None:
    assert await ask_node(tmp_path, "pod", [], ["pod/default/web"]) == {}
    assert await ask_node(tmp_path / "missing", "pod", [], ["pod/default/web"]) == {}
    (tmp_path / SOCKET_NAME).write_text("")
    assert await ask_node(tmp_path, "pod", [], ["pod/default/web"]) == {}


async def test_a_published_state_is_stored_privately_and_read_back(node: tuple[NodeContext, PublishedPods]) -> None:
    context, published = node
    published.take("pod/default/web", "run", Shown())
    await published.flush()
    assert await PublishedPods(context).snapshot("pod/default/web") is None, "a pod without a directory has no room"
    pod_directory(context, "uid-web").mkdir(parents=True)
    published.take("pod/default/web", "run", Shown())
    await published.flush()
    path = pod_directory(context, "uid-web") / SNAPSHOT_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = await PublishedPods(context).snapshot("pod/default/web")
    assert found is not None and found == await published.snapshot("pod/default/web")
    assert (found.run_id, found.history_length, found.next_input["decisions"]) == ("run", 7, 1)
    path.write_text("{")
    assert await PublishedPods(context).snapshot("pod/default/web") is None
