"""A node's API answers on its socket, to its own user only."""

import asyncio
import contextlib
import logging
import stat
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from syncpod.agent import api_server
from syncpod.agent.api_server import ApiServer
from syncpod.agent.open_pods import OpenPods, OpenPodsUnknown
from syncpod.agent.orphaned_pods import OrphanedPods
from syncpod.agent.pod_source import NodePods
from syncpod.agent.probing.unreported import UnreportedFailures
from syncpod.agent.published_pods import PublishedPods
from syncpod.api import client
from syncpod.api.client import SOCKET_NAME, ask, listed, plan, reports, socket_address, steps_under_way
from syncpod.api.messages import TABLE, warning_headers, warnings_in
from syncpod.api.routes import ROUTES
from syncpod.lifecycle.observed import ObservedPod, ObservedSandbox, SandboxState
from syncpod.messages.identity import PodRef
from syncpod.messages.running_steps import PendingStep
from syncpod.node.orphan_mark import why_orphaned
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.tombstones import write_tombstone
from syncpod.node.workflow_snapshots import SNAPSHOT_NAME
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory
from tests.agent.published import OfNoPod
from tests.agent.waiting import until
from tests.unpacking import BODY, recorded


@dataclass(frozen=True)
class Shown(OfNoPod):
    """A state that a workflow has published."""

    uid: str = "uid-web"
    name: str = "web"
    at: datetime = datetime(2026, 11, 22, tzinfo=UTC)
    history_length: int = 7
    is_gone: bool = False
    is_unready: bool = False
    under_way: Sequence[str] = ()

    def pod(self) -> dict[str, Any]:
        metadata = {"uid": self.uid, "name": self.name, "namespace": "default"}
        return {"metadata": metadata, "spec": {"nodeName": "n"}, "text": "ü" * 200_000}

    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        return {"holds": [], "asked": [candidate, update]}

    def history(self) -> list[dict[str, Any]]:
        raise KeyError("it is of another version")

    def steps(self) -> list[str]:
        return list(self.under_way)

    def next_input(self) -> dict[str, Any]:
        return {"snapshot": {"incarnation": "i"}, "decisions": 1}


@dataclass
class Pulling:
    """A running step."""

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
    """A server with open pods' workflows."""

    def __init__(self) -> None:
        self.runs: dict[str, str] | None = {}
        self.open: dict[str, str] = {}
        """The runs that are returned for single workflows."""
        self.looks = 0
        self.required: int | None = 0
        """The number of checks that it is the node's own server; None if it is another server."""
        self.elsewhere: set[str] = set()
        self.listings: list[ObservedPod] = []
        """The pods in the node's runtime."""
        self.steps: list[PendingStep] | None = []
        self.asked_for_steps = 0
        self.other_nodes = False

    async def listed(self, namespace: str | None) -> dict[str, Any]:
        if self.runs is None:
            raise OpenPodsUnknown
        of = f"pod/{namespace or ''}"
        return {each: Listed(each, run) for each, run in self.runs.items() if each.startswith(of)}

    async def require_own(self) -> None:
        if self.required is None:
            raise OpenPodsUnknown
        self.required += 1

    async def pending_steps(self, workflow_id: str) -> Sequence[PendingStep]:
        self.asked_for_steps += 1
        if self.steps is None:
            raise OpenPodsUnknown
        return self.steps

    def are_ours(self, executions: Iterable[Any]) -> bool:
        return not self.elsewhere & {each.id for each in executions}

    async def has_other_nodes(self, node: str) -> bool:
        return self.other_nodes

    async def still_open(self, workflow_ids: Sequence[str]) -> dict[str, str]:
        self.looks += 1
        if self.elsewhere & set(workflow_ids):
            raise OpenPodsUnknown
        return {each: self.open[each] for each in workflow_ids if each in self.open}

    async def named(self, namespace: str, names: Sequence[str]) -> dict[str, str]:
        found = await self.listed(namespace)
        return {each: listed.run_id for each, listed in found.items() if each.rpartition("/")[2] in names}


Node = tuple[NodeContext, PublishedPods]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest_asyncio.fixture
async def node(tmp_path: Path, server: Server) -> AsyncIterator[tuple[NodeContext, PublishedPods]]:
    state = tmp_path / ("deep" * 20) / ("deeper" * 20)  # longer than an address of a unix socket may be
    state.mkdir(parents=True, mode=0o700)
    context = NodeContext(name="n", state_dir=state, memory_dir=tmp_path, log_dir=tmp_path, cluster="c/n")
    published = PublishedPods(context)
    failures = UnreportedFailures("web", "Liveness probe failed: no", 3, datetime(2026, 11, 22, tzinfo=UTC))
    steps = [Pulling(PodRef(name="web", namespace="default", uid=uid)) for uid in ("uid-web", "of an earlier life")]
    pods = NodePods(
        context,
        published,
        open_pods=server,
        unreported=lambda uid: [failures] if uid == "uid-web" else [],
        orphaned=OrphanedPods(context, lambda: server.listings, server),
        running=steps,
    )
    serving = asyncio.create_task(ApiServer(pods).run())
    await until((state / SOCKET_NAME).exists)
    yield context, published
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def names_in(items: Iterable[Any]) -> list[str]:
    return [each["metadata"]["name"] for each in items]


async def known(context: NodeContext, namespace: str | None, names: Sequence[str], *parts: str) -> Any:
    return await asyncio.to_thread(reports, context.state_dir, namespace, names, *parts, at_once=True)


async def told(context: NodeContext, namespace: str | None, names: Sequence[str], *parts: str) -> Any:
    return await asyncio.to_thread(reports, context.state_dir, namespace, names, *parts)


async def pods(context: NodeContext, namespace: str | None, names: Sequence[str] = (), **how: Any) -> Any:
    return await asyncio.to_thread(listed, context.state_dir, "pods", namespace, names, **how)


async def test_known_state_is_told_with_its_run(node: Node) -> None:
    context, published = node
    many = [f"web-{number:03}" for number in range(120)]
    for name in many:
        published.take(f"pod/default/{name}", f"run of {name}", Shown(name=name))
    found = await known(context, "default", [*many, "unknown"], "pod")
    assert names_in(found) == many
    assert (found[-1]["run"], len(found[-1]["pod"]["text"])) == ("run of web-119", 200_000)
    assert names_in(await known(context, None, ())) == many
    assert await known(context, "other", ()) == [] == await known(context, "defaul", ())

    assert await known(context, "default", many[:2], "history") is None, "there is no half an answer"
    (events,) = await known(context, "default", many[:1], "events")
    assert [event["count"] for event in events["events"]] == [3], "the failures that the workflow does not know of"
    published.take(f"pod/default/{many[0]}", "run", Shown(is_gone=True))
    assert names_in(await known(context, "default", many[:2])) == many[1:2]


async def test_a_plan_is_of_the_candidate_and_its_update(node: Node) -> None:
    context, published = node
    published.take("pod/default/web", "run", Shown())
    asking = asyncio.to_thread(plan, context.state_dir, "default", "web", {"spec": {}}, "resize")
    found = await asking
    assert found is not None and found["plan"]["asked"] == [{"spec": {}}, "resize"]
    assert await asyncio.to_thread(plan, context.state_dir, "default", "unknown", {}) is None


def listing(name: str, uid: str, *, ready: bool = True) -> ObservedPod:
    state: SandboxState = "SANDBOX_READY" if ready else "SANDBOX_NOTREADY"
    return ObservedPod(uid=uid, name=name, namespace="default", sandboxes=(ObservedSandbox(id=uid, state=state),))


async def test_a_pod_that_runs_without_a_workflow_is_told_with_a_mark(node: Node, server: Server) -> None:
    """Its workflow was terminated. A pod whose workflow the server does not list yet is not marked."""
    context, published = node
    for name in ("web", "old", "new"):
        published.take(f"pod/default/{name}", "run", Shown(name=name))
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
    found = {each["metadata"]["name"]: each for each in (await pods(context, "default"))["items"]}
    assert {name: bool(why_orphaned(pod)) for name, pod in found.items()} == {
        "web": False,
        "old": True,
        "after-a-restart": True,
    }
    assert found["old"]["text"], "what its workflow told last"
    assert [row["cells"][2] for row in (await pods(context, "default", ["old"], accept=TABLE))["rows"]] == ["Orphan"]
    (whole,) = await told(context, "default", ["after-a-restart"], "pod", "plan", "events", "under_way")
    assert why_orphaned(whole["pod"]) and whole["plan"]["holds"] == whole["events"] == whole["under_way"] == []


async def test_the_server_is_asked_only_about_those_named_pods_that_run(node: Node, server: Server) -> None:
    """`apply` asks for its own pods; a new one is not in the runtime."""
    context, _ = node
    server.runs, server.open = {"pod/default/listed": "run"}, {"pod/default/web": "run"}
    server.listings = [listing("web", "uid-web"), listing("old", "uid-old"), listing("listed", "uid-3")]

    async def orphans(*names: str, namespace: str | None = "default") -> list[str]:
        return names_in((await pods(context, namespace, names, query={"orphans": "true"}))["items"])

    assert (await orphans("new"), server.looks, server.required) == ([], 0, 0)
    assert (await orphans("web"), server.looks, server.required) == ([], 1, 0)
    assert (await orphans("new", "old", "web"), server.looks, server.required) == (["old"], 2, 1)
    assert await orphans(namespace=None) == ["old"], "visibility has the listed one, and the server the other"
    server.required = None
    assert await pods(context, "default", ["old"], query={"orphans": "true"}) is None, "another server answers"


async def test_what_the_steps_under_way_do_is_told_without_the_server(node: Node, server: Server) -> None:
    context, _ = node
    server.runs = None
    step, _ = await asyncio.to_thread(steps_under_way, context.state_dir)
    assert step == {
        **{"namespace": "default", "name": "web", "uid": "uid-web", "step": "pull_image", "container": "app"},
        "doing": "waits for other pulls to pull web:1",
    }
    assert steps_under_way(context.state_dir / "missing") == []


async def test_all_open_pods_are_told_or_none(node: Node, server: Server) -> None:
    context, published = node

    async def uids(namespace: str | None, *names: str) -> list[str] | None:
        found = await pods(context, namespace, names)
        return None if found is None else [each["metadata"]["uid"] for each in found["items"]]

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


async def test_pods_to_which_a_worker_has_not_come_are_rows_as_they_were_recorded(node: Node, server: Server) -> None:
    """Each one's workflow would be replayed for a query, while the worker is about to replay all of them."""
    context, published = node
    published.take("pod/default/web", "run", Shown())
    server.runs = {"pod/default/web": "run", **{f"pod/default/late-{each:02}": "run" for each in range(60)}}
    rows = (await pods(context, None, accept=TABLE))["rows"]
    assert len(rows) == 61 and [row["cells"][1] for row in rows if row["object"]["metadata"].get("uid")] == ["0/0"]
    late = rows[59]
    assert late["object"]["metadata"]["name"] == "late-59"
    assert late["cells"][:4] == ["late-59", "?", "CrashLoopBackOff?", "12?"] and late["cells"][6] == "n"
    assert await pods(context, None) is None, "who needs all of each"
    server.elsewhere.add("pod/default/late-07")
    assert await pods(context, None, accept=TABLE) is None, "its own node knows it"


async def test_a_pod_that_has_just_ended_or_begun_does_not_keep_the_others_from_being_told(
    node: Node, server: Server
) -> None:
    context, published = node
    published.take("pod/default/web", "run", Shown(uid="web"))
    server.runs = {"pod/default/web": "run", "pod/default/ended": "run", "pod/default/begun": "run"}
    server.open = {"pod/default/begun": "run"}
    telling = asyncio.create_task(pods(context, "default"))
    await until(lambda: server.looks > 0)
    published.take("pod/default/begun", "run", Shown(uid="begun"))
    found = await telling
    assert found is not None and [one["metadata"]["uid"] for one in found["items"]] == ["begun", "web"]
    looks = server.looks
    server.runs = {f"pod/default/{number}": "run" for number in range(51)}
    assert await pods(context, "default") is None
    assert server.looks == looks, "so many are not asked for one by one"


async def test_lists_are_selected_from_by_labels_and_fields(node: Node, server: Server) -> None:
    context, published = node
    for name in ("web", "db"):
        published.take(f"pod/default/{name}", "run", Shown(name=name))
    server.runs = dict.fromkeys(("pod/default/web", "pod/default/db"), "run")
    for query, expected in (
        ({"fieldSelector": "metadata.name=db"}, ["db"]),
        ({"fieldSelector": "metadata.name!=db"}, ["web"]),
        ({"labelSelector": "app=x"}, []),
        ({"labelSelector": "!app"}, ["db", "web"]),
    ):
        assert names_in((await pods(context, "default", query=query))["items"]) == expected
        rows = (await pods(context, "default", query=query, accept=TABLE))["rows"]
        assert names_in(each["object"] for each in rows) == expected


async def test_a_description_has_the_steps_that_the_server_is_trying(node: Node, server: Server) -> None:
    """The server is queried only if the pod has such steps; if that fails, the description fails, too."""
    context, published = node
    server.runs = {"pod/default/web": "run"}

    async def described() -> tuple[int, list[str]]:
        path = "/apis/syncpod.dev/v1/namespaces/default/podreports/web"
        query = [("include", "description"), ("workflows", "http://ui/namespaces/default/workflows")]
        reply = await asyncio.to_thread(ask, context.state_dir, path, query)
        assert reply is not None
        return reply.code, reply.document.get("description", {}).get("lines", [])

    published.take("pod/default/web", "run", Shown())
    code, lines = await described()
    assert code == 200 and "  Run ID:       run" in lines and not server.asked_for_steps
    assert "  UI:           http://ui/namespaces/default/workflows/pod%2Fdefault%2Fweb/run/timeline" in lines
    published.take("pod/default/web", "run", Shown(under_way=("pull_image",)))
    server.steps = [PendingStep("pull_image", 3, None, "no route to host")]
    code, lines = await described()
    assert code == 200 and lines[lines.index("Pending Steps:") + 1 :][:2] == [
        "  pull_image: try 3",
        "    last failed: no route to host",
    ]
    server.steps = None
    assert (await described())[0] == 503


@dataclass(frozen=True)
class ShownNode(OfNoPod):
    """A state that the node's own workflow has published."""

    uid: str = ""
    at: datetime = datetime(2026, 11, 22, tzinfo=UTC)
    history_length: int = 7
    is_gone: bool = False
    is_unready: bool = False

    def node(self) -> dict[str, Any]:
        return {"name": "n", "unschedulable": True, "labels": {"disk": "ssd"}}


async def test_the_node_itself_is_told_if_its_workflow_has_published_it(node: Node, server: Server) -> None:
    context, published = node

    async def answer(name: str = "n", *, at_once: bool = True) -> tuple[int, Any]:
        query = [("resourceVersion", "0")] if at_once else []
        reply = await asyncio.to_thread(ask, context.state_dir, f"/api/v1/nodes/{name}", query)
        assert reply is not None
        return reply.code, reply.document

    assert (await answer())[0] == 503
    published.take("node/n", "run", ShownNode())
    code, document = await answer()
    assert (code, document["kind"], document["spec"]["unschedulable"]) == (200, "Node", True)
    assert document["metadata"] == {"name": "n", "labels": {"disk": "ssd"}}
    code, document = await answer("other")
    assert code == 503 and "knows no node but its own" in document["message"]
    assert server.looks == 0
    for open_run, expected in (({"node/n": "run"}, 200), ({"node/n": "another"}, 503), ({}, 503)):
        server.open = open_run
        assert (await answer(at_once=False))[0] == expected
    server.open, server.required = {"node/n": "run"}, None
    assert (await answer(at_once=False))[0] == 503, "it is another server"


async def test_the_node_is_listed_if_the_server_has_no_other(node: Node, server: Server) -> None:
    context, published = node
    published.take("node/n", "run", ShownNode())
    server.open = {"node/n": "run"}
    found = await asyncio.to_thread(listed, context.state_dir, "nodes", None)
    assert found is not None and found["kind"] == "NodeList" and names_in(found["items"]) == ["n"]
    query = {"includeObject": "Object"}
    shown: list[str] = []
    for more in (query, {}):
        table = await asyncio.to_thread(listed, context.state_dir, "nodes", None, (), more, accept=TABLE)
        assert table is not None and table["rows"][0]["cells"][:3] == ["n", "Unknown,SchedulingDisabled", "<none>"]
        assert table["rows"][0]["object"]["kind"] == ("Node" if more else "PartialObjectMetadata")
        shown = [each["name"] for each in table["columnDefinitions"] if not each["priority"]]
    assert shown == ["Name", "Status", "Roles", "Age", "Version"]
    published.take("pod/default/web", "run", Shown())
    server.runs = {"pod/default/web": "run"}
    path = "/apis/syncpod.dev/v1/nodedescriptions"
    for where in (path, f"{path}/n"):
        reply = await asyncio.to_thread(ask, context.state_dir, where)
        assert reply is not None and reply.code == 200
        described = reply.document["items"][0] if where == path else reply.document
        assert described["metadata"] == {"name": "n"} and "Pods (1 in total):" in described["lines"]
    server.other_nodes = True
    reply = await asyncio.to_thread(ask, context.state_dir, path)
    assert reply is not None and reply.code == 503
    assert await asyncio.to_thread(listed, context.state_dir, "nodes", None) is None


async def test_events_are_told_as_kubernetes_has_them(node: Node, server: Server) -> None:
    context, published = node
    published.take("pod/default/web", "run", Shown())
    server.runs = {"pod/default/web": "run"}
    for query, count in (({}, 1), ({"fieldSelector": "involvedObject.name=web"}, 1), ({"fieldSelector": "type=x"}, 0)):
        found = await asyncio.to_thread(listed, context.state_dir, "events", "default", (), query)
        assert found is not None and found["kind"] == "EventList" and len(found["items"]) == count
    table = await asyncio.to_thread(listed, context.state_dir, "events", None, accept=TABLE)
    assert table is not None and table["rows"][0]["cells"][1:4] == ["Warning", "Unhealthy", "pod/web"]
    shown = [each["name"] for each in table["columnDefinitions"] if not each["priority"]]
    assert shown == ["Last Seen", "Type", "Reason", "Object", "Message"]


@pytest.mark.parametrize("sentences", [(), ("node n1 is away",), ('it says "no", and 299 - "x"', "back\\slash, comma")])
def test_warnings_are_read_as_they_were_sent(sentences: tuple[str, ...]) -> None:
    assert warnings_in(warning_headers(sentences).get("Warning", "")) == sentences


def test_the_page_has_each_path() -> None:
    page = (Path(__file__).parents[2] / "docs/engineering/node-api.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith(("| GET ", "| POST "))]
    assert {(route.method, route.path) for route in ROUTES} == {
        (row.split()[1], path.strip("`")) for row in rows for path in row.split("|")[2].strip().split(", ")
    }


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "query", "code", "says"),
    [
        ("GET", "/", [], 404, "there is no such path"),
        ("GET", "/api/v1/services", [], 501, "no such resource"),
        ("GET", "/apis/apps/v1/deployments", [], 501, "no such resource"),
        ("DELETE", "/api/v1/pods", [], 405, "it answers GET"),
        ("GET", "/api/v1/namespaces/default/pods/nobody", [], 404, 'pods "nobody" not found'),
        ("GET", "/api/v1/pods", [("labelSelector", "a b")], 400, "is not a condition on a label"),
        ("GET", "/api/v1/pods", [("fieldSelector", "spec.x=1")], 400, "cannot be selected by"),
        ("GET", "/api/v1/pods", [("pod", "web")], 400, "names are of one namespace"),
        ("GET", "/apis/syncpod.dev/v1/podreports", [("include", "secrets")], 400, "include: must be of pod,"),
        ("POST", "/apis/syncpod.dev/v1/namespaces/default/podreports/web/plan", [], 400, "the body is no JSON"),
    ],
)
async def test_what_is_not_answered_is_a_status_with_a_sentence(
    node: Node, method: str, path: str, query: list[tuple[str, str]], code: int, says: str
) -> None:
    reply = await asyncio.to_thread(ask, node[0].state_dir, path, query, method=method)
    assert reply is not None and (reply.code, reply.document["code"], reply.document["kind"]) == (code, code, "Status")
    assert says in reply.document["message"] and "\n" not in reply.document["message"]


async def test_a_pod_that_the_server_does_not_speak_of_is_not_said_to_be_missing(node: Node, server: Server) -> None:
    server.runs = None
    reply = await asyncio.to_thread(ask, node[0].state_dir, "/api/v1/namespaces/default/pods/web")
    assert reply is not None and (reply.code, reply.document["reason"]) == (503, "ServiceUnavailable")


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_worker_that_has_read_a_request_is_given_more_time_than_one_that_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_heard: bool
) -> None:
    """Of both times, the one that must not count is so long that the test would fail."""
    monkeypatch.setattr(client, "PATIENCE_SECONDS", 600.0 if is_heard else 0.05)
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.05 if is_heard else 600.0)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" if is_heard else b"")
        await reader.read()  # until it is given up
        writer.close()

    with socket_address(tmp_path) as address:
        serving = await asyncio.start_unix_server(silent, address)
    async with serving:
        assert await asyncio.to_thread(ask, tmp_path, "/api/v1/pods") is None


async def test_a_request_is_heard_before_its_answer_is_made(node: Node, server: Server) -> None:
    """So a client knows that it need not use the server."""
    context, published = node
    published.take("pod/default/web", "run", Shown())
    server.runs = server.open = {"pod/default/begun": "a run that has published nothing yet"}
    reader, writer = await connected(context)
    writer.write(b"GET /api/v1/pods HTTP/1.1\r\nHost: n\r\nExpect: 100-continue\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert not server.looks or server.open
    published.take("pod/default/begun", server.runs["pod/default/begun"], Shown(name="begun"))
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()


CHUNK = b"80000\r\n" + b"x" * 2**19 + b"\r\n"


# --- who may connect, and for how long --------------------------------------------------------------------------------


async def connected(context: NodeContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    with socket_address(context.state_dir) as address:
        return await asyncio.open_unix_connection(address)


async def test_only_the_workers_user_may_use_the_socket(node: Node) -> None:
    mode = (node[0].state_dir / SOCKET_NAME).stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 2**17 + b" HTTP/1.1\r\nHost: n\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: n\r\nX: " + b"x" * 2**17 + b"\r\n\r\n", b"400"),
        (b"POST /x HTTP/1.1\r\nHost: n\r\nContent-Length: 99999999\r\n\r\n", b"413"),
        (b"POST /x HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK * 17, b"413"),
        (b"", b""),
    ],
    ids=["nonsense", "line", "header", "length", "body", "nothing"],
)
async def test_an_invalid_request_ends_only_its_own_connection(
    node: Node, caplog: pytest.LogCaptureFixture, sent: bytes, code: bytes
) -> None:
    context, published = node
    published.take("pod/default/web", "run", Shown())
    reader, writer = await connected(context)
    writer.write(sent)
    assert (await reader.readline())[9:12] == code
    writer.close()
    assert await known(context, "default", ["web"])
    assert not caplog.records, "what any client may do is no defect"


async def test_a_compressed_body_is_refused_and_not_unpacked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would happen on the event loop."""
    sizes = recorded(monkeypatch)
    reader, writer = await connected(node[0])
    head = f"POST /x HTTP/1.1\r\nHost: n\r\nContent-Encoding: gzip\r\nContent-Length: {len(BODY)}\r\n\r\n"
    writer.write(head.encode() + BODY)
    assert (await reader.readline())[9:12] == b"415"
    writer.close()
    assert sizes == []


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /api",
        b"POST /x HTTP/1.1\r\nHost: n\r\nContent-Length: 9\r\n\r\n",
        b"GET /version HTTP/1.1\r\nHost: n\r\n\r\n",
    ],
    ids=["nothing", "half a line", "no body", "no second request"],
)
async def test_a_client_that_falls_silent_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    monkeypatch.setattr(api_server, "PATIENCE_SECONDS", 0.05)
    context = NodeContext(name="n", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c/n")
    serving = asyncio.create_task(ApiServer(NodePods(context, PublishedPods(context))).run())
    await until((tmp_path / SOCKET_NAME).exists)
    reader, writer = await connected(context)
    writer.write(sent)
    with contextlib.suppress(ConnectionResetError):
        await reader.read()  # it comes back, since the server ends the connection
    writer.close()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_a_reader_that_takes_no_answer_is_given_up(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "PATIENCE_SECONDS", 0.05)
    context, published = node
    for number in range(120):
        published.take(f"pod/default/web-{number}", "run", Shown())
    reader, writer = await connected(context)
    writer.write(b"GET /apis/syncpod.dev/v1/podreports?include=pod&resourceVersion=0 HTTP/1.1\r\nHost: n\r\n\r\n")
    transport: Any = writer.transport
    transport.pause_reading()
    await asyncio.sleep(0.5)
    transport.resume_reading()
    with contextlib.suppress(ConnectionResetError):
        assert not (await reader.read()).endswith(b"0\r\n\r\n"), "the whole answer has come"
    writer.close()


async def test_there_are_only_so_many_connections(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "CONNECTIONS", 2)
    context, _ = node
    first, second = await connected(context), await connected(context)
    reader, third = await connected(context)
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    for _, writer in (first, second):
        writer.close()
        await writer.wait_closed()
    third.close()

    for _ in range(100):
        if await known(context, "default", ()) == []:
            break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("nobody is served any more")


async def test_without_a_worker_the_socket_gives_no_answer(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        assert ask(directory, "/api/v1/pods") is None
    (tmp_path / SOCKET_NAME).write_text("")
    assert ask(tmp_path, "/api/v1/pods") is None


async def test_a_published_state_is_stored_privately_and_read_back(node: Node) -> None:
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
