"""``fleet explain`` and ``describe`` of pods on silent nodes and of unhealthy pods, from the fleet's own knowledge."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli import fleet_remote_commands
from syncpod.cli.actions import fleet_describe, fleet_explain
from syncpod.cli.actions.fleet_describe import describe_pod
from syncpod.cli.actions.fleet_explain import explain_node, explain_pod
from syncpod.cli.description import Descriptions
from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.cli.view.unheard_pod import UnheardPod
from syncpod.fleet.when_lost import when_lost
from syncpod.messages.fleet import FleetNodeView, Intent, PlacedPod, PodReport
from syncpod.messages.workload import WorkloadPod, WorkloadView

CLIENT = cast(Client, None)
OWNER = "workload/Deployment/default/web"
NOW = datetime(2026, 11, 28, 4, 31, tzinfo=UTC)
SINCE = NOW - timedelta(minutes=1)


def at(moment: datetime) -> str:
    return f"{moment.astimezone():%H:%M:%S}"


@pytest.mark.parametrize(
    ("rule", "kind", "copy", "then", "meanwhile"),
    [
        (
            "replace-after=5m",
            "Deployment",
            {"replaced_at": NOW + timedelta(minutes=4)},
            f"it is replaced at {at(NOW + timedelta(minutes=4))} unless node n1 is back "
            "(syncpod.dev/when-lost: replace-after=5m0s)",
            "if node n1 runs, the pod runs on there",
        ),
        (
            "replace-after=30s",
            "Deployment",
            {"replaced_at": NOW - timedelta(seconds=30)},
            f"it is to be replaced since {at(NOW - timedelta(seconds=30))} "
            "(syncpod.dev/when-lost: replace-after=30s), unless node n1 is back",
            "if node n1 runs, the pod runs on there",
        ),
        (
            "replace-after=30s",
            "Deployment",
            {"replaced_at": NOW - timedelta(seconds=30), "replaced_by": "web-5 on n2"},
            "web-5 on n2 has replaced it; when node n1 is back, one of the two is removed",
            "if node n1 runs, the pod runs on there",
        ),
        (
            "stop-after=5m",
            "DaemonSet",
            {},
            "nothing until node n1 is back: a pod of a DaemonSet belongs to its node",
            "if node n1 runs, it stops the pod by itself 5m0s after its last contact",
        ),
        (
            "wait",
            "Deployment",
            {},
            "nothing until node n1 is back: no other pod replaces it (syncpod.dev/when-lost: wait)",
            "if node n1 runs, the pod runs on there",
        ),
        (
            "wait",
            "",
            None,
            "nothing until node n1 is back: a pod with a nodeName runs on no other node",
            "if node n1 runs, the pod runs on there",
        ),
    ],
)
def test_the_next_step_for_a_pod_on_a_silent_node_is_that_of_its_rule(
    rule: str, kind: str, copy: dict[str, Any] | None, then: str, meanwhile: str
) -> None:
    node = FleetNodeView(name="n1", presence="Unknown", since=SINCE)
    placed = PlacedPod(name="web-1", report=PodReport(phase="Running"))
    known = WorkloadPod(**copy) if copy is not None else None
    pod = UnheardPod(node, placed, kind, when_lost({"syncpod.dev/when-lost": rule}), known)
    assert pod.then(NOW) == [then, meanwhile]


@pytest.mark.parametrize(
    ("placed", "then"),
    [
        (
            {"state": "ending", "why": "scaled down"},
            "it was withdrawn (scaled down): node n1 ends it as soon as it is back",
        ),
        ({"report": PodReport(phase="Succeeded")}, "nothing until node n1 is back: no other pod replaces it "),
    ],
)
def test_of_a_pod_that_has_ended_or_is_ending_nothing_is_said_to_run_on(placed: dict[str, Any], then: str) -> None:
    node = FleetNodeView(name="n1", presence="Unknown", since=SINCE)
    (said,) = UnheardPod(node, PlacedPod(name="web-1", **placed), "Pod", when_lost({}), None).then(NOW)
    assert said.startswith(then)


def placed(name: str, *, ready: bool = True, status: str = "Running", **more: Any) -> PlacedPod:
    report = PodReport(name=name, phase="Running", status=status, ready=ready, ready_containers=f"{int(ready)}/1")
    return PlacedPod(**{"name": name, "owner": OWNER, "state": "taken", "report": report, **more})


Serve = Callable[..., list[str]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Make a fleet with these nodes; return the list of requests that its nodes get."""

    def have(*nodes: FleetNodeView, workload: WorkloadView, rule: str = "wait") -> list[str]:
        asked = list[str]()

        async def views(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
            return [each for each in nodes if not names or each.name in names]

        async def one(client: Client, name: str) -> FleetNodeView:
            return (await views(client, [name]))[0]

        async def workload_view(*_: Any) -> WorkloadView:
            return workload

        async def intent(_: Client, name: str) -> Intent:
            pods = next(each.placed for each in nodes if each.name == name)
            meta = {"annotations": {"syncpod.dev/when-lost": rule}}
            return Intent(pods=tuple({"metadata": {"name": each.name, **meta}} for each in pods))

        async def output_on(_: Client, node: FleetNodeView, words: Sequence[str]) -> tuple[int, str, str]:
            if why := fleet_remote_commands.why_away(node):
                raise Failure(why)
            asked.append(f"{node.name}: {' '.join(words)}")
            if node.name == "mute":
                raise fleet_remote_commands.Silent("node mute does not answer: it has taken no request for 10 s")
            return 0, "", ""

        monkeypatch.setattr(fleet, "views", views)
        monkeypatch.setattr(fleet, "view", one)
        monkeypatch.setattr(fleet, "intent", intent)
        monkeypatch.setattr(fleet_workloads, "view", workload_view)
        for module in (fleet_remote_commands, fleet_explain, fleet_describe):
            monkeypatch.setattr(module, "output_on", output_on)
        return asked

    return have


async def test_a_pod_of_a_silent_node_is_explained_and_described_by_the_fleet(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    at_ten = datetime(2126, 1, 1, 10, tzinfo=UTC)
    copy = WorkloadPod(name="web-1", node="n1", replaced_at=at_ten)
    silent = FleetNodeView(name="n1", presence="Unknown", since=SINCE, placed=(placed("web-1"),))
    asked = serve(silent, workload=WorkloadView(kind="Deployment", name="web", pods=(copy,)), rule="replace-after=5m")
    then = f"it is replaced at {at_ten.astimezone():%Y-%m-%d %H:%M:%S} unless node n1 is back"
    await explain_pod(CLIENT, ["web-1"], "default", "", ["--namespace=default"])
    told = capsys.readouterr().out
    assert "Last report: Running, 1/1 ready, 0 restarts\n" in told and f"Next:        {then}" in told
    await describe_pod(CLIENT, Descriptions(), "web-1", "default", "")
    told = capsys.readouterr().out
    assert "Status:       Unknown\n" in told and f"Next:         {then}" in told
    await explain_pod(CLIENT, ["web-1"], "default", "", ["--namespace=default", "--output=json"])
    said = json.loads(capsys.readouterr().out)
    assert (said["status"], said["whenLost"], said["lastReport"]["status"]) == (
        "Unknown",
        "replace-after=5m0s",
        "Running",
    )
    await explain_node(CLIENT, "n1", [])
    assert "Now:         node n1 has been Unknown since " in capsys.readouterr().out
    assert asked == []
    with pytest.raises(Failure, match="it cannot be asked until it is back"):
        await explain_pod(CLIENT, ["web-1"], "default", "", ["--namespace=default", "--start"])


async def test_a_node_that_does_not_answer_before_it_is_unknown_is_no_dead_end(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    mute = FleetNodeView(name="mute", presence="Ready", since=SINCE, placed=(placed("web-1"),))
    asked = serve(mute, workload=WorkloadView(kind="Deployment", name="web"), rule="replace-after=5m")
    said = "node mute does not answer: it has taken no request for 10 s"
    await explain_pod(CLIENT, ["web-1"], "default", "", ["--namespace=default"])
    told = capsys.readouterr().out
    assert f"Now:         not known: {said}\n" in told and "if node mute stays silent, it becomes Unknown, and " in told
    await describe_pod(CLIENT, Descriptions(), "web-1", "default", "")
    assert f"Why:          {said}\n" in capsys.readouterr().out
    await explain_node(CLIENT, "mute", [])
    assert f"Now:         {said}\n" in capsys.readouterr().out
    with pytest.raises(Failure, match=said):
        await explain_pod(CLIENT, ["web-1"], "default", "", ["--namespace=default", "--start"])
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("pods", "chosen", "note"),
    [
        ({"n1": [placed("web-1")], "n2": [placed("web-2")]}, "n1: explain web-1", "Found 2 pods, using pod/web-1\n"),
        (
            {"n1": [placed("web-1")], "n2": [placed("web-2", ready=False)]},
            "n2: explain web-2",
            "Found 2 pods, 1 not well, using pod/web-2\n",
        ),
        (
            {"n1": [placed("web-1", ready=False)], "n2": [placed("web-2", ready=False, status="CrashLoopBackOff")]},
            "n2: explain web-2",
            "Found 2 pods, 2 not well, using pod/web-2\n",
        ),
        (
            {"away": [placed("web-1")], "n2": [placed("web-2", ready=False)]},
            "n2: explain web-2",
            "Found 2 pods, 2 not well, using pod/web-2\n",
        ),
        ({"away": [placed("web-1")], "n2": [placed("web-2")]}, "", "Found 2 pods, 1 not well, using pod/web-1\n"),
        (
            {"n1": [placed("web-1", state="ending", ready=False)], "n2": [placed("web-2")]},
            "n2: explain web-2",
            "Found 2 pods, using pod/web-2\n",
        ),
    ],
    ids=["all well", "one not ready", "one fails", "one is silent, another not ready", "one is silent", "one ends"],
)
async def test_of_a_workload_the_pod_is_explained_that_is_not_well(
    serve: Serve, pods: dict[str, list[PlacedPod]], chosen: str, note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        FleetNodeView(name=name, presence="Unknown" if name == "away" else "Ready", since=SINCE, placed=tuple(each))
        for name, each in pods.items()
    ]
    asked = serve(*nodes, workload=WorkloadView(kind="Deployment", name="web"))
    await explain_pod(CLIENT, ["deployment", "web"], "default", "", [])
    assert (asked, capsys.readouterr().err) == ([chosen] if chosen else [], note)


async def test_of_a_workload_a_pod_without_a_node_is_explained_before_one_that_is_well(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    homeless = WorkloadPod(name="web-2", why="0/1 nodes are available: 1 Insufficient cpu.")
    node = FleetNodeView(name="n1", presence="Ready", placed=(placed("web-1"),))
    asked = serve(node, workload=WorkloadView(kind="Deployment", name="web", pods=(homeless,)))
    await explain_pod(CLIENT, ["deployment", "web"], "default", "", [])
    told = capsys.readouterr()
    assert (asked, told.err) == ([], "Found 2 pods, 1 not well, using pod/web-2\n")
    assert "Why:         0/1 nodes are available: 1 Insufficient cpu." in told.out


async def test_what_needs_the_pod_itself_says_the_way_on_while_its_node_is_away() -> None:
    gone = FleetNodeView(name="n9", presence="Unknown", since=SINCE)
    for words in (["logs", "web-1", "--namespace=default"], ["exec", "--namespace=default", "web-1"]):
        with pytest.raises(
            Failure, match="it cannot be asked until it is back; its pods may run on meanwhile: on that machine "
        ) as refused:
            await fleet_remote_commands.run_there(CLIENT, gone, words, write=cast(Any, None))
        assert f"`syncpod {words[0]} web-1` reaches them" in str(refused.value)
        assert ("if its worker runs there" in str(refused.value)) == (words[0] == "exec"), "logs are files"
        assert "`syncpod fleet explain pod/web-1` shows the fleet's own records" in str(refused.value)


async def test_a_copy_is_named_as_it_was_typed_and_the_journal_is_where_it_is() -> None:
    gone = FleetNodeView(name="n9", presence="Unknown", since=SINCE)
    run_there = fleet_remote_commands.run_there
    with pytest.raises(Failure, match="on that machine `syncpod cp` reaches them, if its worker runs there"):
        await run_there(CLIENT, gone, ["exec", "web-1", "--", "tar"], write=cast(Any, None), typed="cp")
    past = ["explain", "web-1", "--namespace=default", "--at=12:00"]
    with pytest.raises(
        Failure, match="its journal is on that machine, where `syncpod explain web-1` with the same flags"
    ):
        await run_there(CLIENT, gone, past, write=cast(Any, None))
