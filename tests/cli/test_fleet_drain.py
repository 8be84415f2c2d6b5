"""`fleet drain` and `cordon` of several nodes at once, and the messages while a drain waits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli import maintenance
from syncpod.cli.commands.drain import CordonOptions, fleet_cordon
from syncpod.cli.failure import Failure
from syncpod.cli.main import run
from syncpod.cli.temporal import fleet, fleet_nodes, fleet_workloads
from syncpod.messages.fleet import FleetNodeView, Intent, PlacedPod
from syncpod.messages.workload import WorkloadView

OWNER = "workload/Deployment/default/web"
BARE = PlacedPod(name="bare")
WEB = PlacedPod(name="web-1", owner=OWNER)
NO_CLIENT = cast(Client, None)


class Nodes:
    """A fleet whose nodes return one view after another, and repeat the last one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **views: list[FleetNodeView]) -> None:
        self.shown, self.done = views, list[str]()
        monkeypatch.setattr(fleet, "view", self.look)
        monkeypatch.setattr(fleet, "update", self.change)
        monkeypatch.setattr(fleet, "intent", self.intent)
        monkeypatch.setattr(fleet_workloads, "view", self.workload)
        monkeypatch.setattr(fleet_nodes, "_LOOK_SECONDS", 0)

    async def look(self, _client: Client, name: str) -> FleetNodeView:
        if name not in self.shown:
            raise Failure(f'nodes "{name}" not found in the fleet')
        views = self.shown[name]
        return views.pop(0) if len(views) > 1 else views[0]

    async def change(self, _client: Client, name: str, change: str, _body: Any = None) -> dict[str, Any]:
        self.done.append(f"{change} {name}")
        return {}

    async def intent(self, _client: Client, _name: str) -> Intent:
        return Intent(fleet="f", generation=1)

    async def workload(self, _client: Client, *_key: str) -> WorkloadView:
        return WorkloadView(says="b is being rolled out")

    async def drain(self, *names: str, skip_after: int = 0, **how: Any) -> None:
        await maintenance.drain(fleet_nodes.FleetNodes(NO_CLIENT, skip_after), names, maintenance.Draining(**how))


def node(name: str, *placed: PlacedPod, **fields: Any) -> FleetNodeView:
    return FleetNodeView(**{"name": name, "presence": "Ready", "draining": True, "placed": placed, **fields})


async def test_no_node_is_cordoned_if_one_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(monkeypatch, n1=[node("n1")])
    with pytest.raises(Failure, match='nodes "nope" not found'):
        await nodes.drain("n1", "nope")
    monkeypatch.setattr(fleet, "run", lambda work, **_: asyncio.run(work(NO_CLIENT)))
    with pytest.raises(Failure, match='nodes "nope" not found'):
        await asyncio.to_thread(fleet_cordon, CordonOptions(["n1", "node/nope"]))
    assert nodes.done == []


async def test_a_node_that_cannot_be_drained_does_not_keep_others_from_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = Nodes(monkeypatch, n1=[node("n1", BARE)], n2=[node("n2")])
    with pytest.raises(Failure, match=r"^not drained: n1$"):
        await nodes.drain("n1", "n2")
    assert nodes.done == ["cordon n1", "cordon n2", "drain n2"]
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "node/n2 drained"
    assert 'unable to drain node "n1", which stays cordoned:' in said.err


async def test_a_drain_says_whether_it_waits_for_a_workload_or_a_pods_end_or_a_lost_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ending = WEB.model_copy(update={"state": "ending"})
    there = node("n1", WEB)
    views = [there, there, there, node("n1", ending), node("n1", ending, presence="Unknown"), node("n1")]
    await Nodes(monkeypatch, n1=views).drain("n1")
    assert capsys.readouterr().err.splitlines() == [
        f"{OWNER}: b is being rolled out",
        "node n1 is ending default/web-1, within its grace period",
        "node n1 cannot be reached, so these pods count as ending until it is back "
        "(`fleet delete pod --force` counts them as gone): default/web-1",
    ]


async def test_a_dry_run_says_what_a_drain_would_do_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = Nodes(monkeypatch, n1=[node("n1", WEB, BARE, draining=False)])
    await nodes.drain("n1", force=True, mark=" (dry run)")
    assert nodes.done == []
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "node/n1 cordoned (dry run)",
        "evicting pod default/web-1 (dry run)",
        "evicting pod default/bare (dry run)",
        "node/n1 drained (dry run)",
    ]
    with pytest.raises(Failure, match=r'^unable to drain node "n1":\ncannot delete Pods that declare no controller'):
        await nodes.drain("n1", mark=" (dry run)")


async def test_a_pod_that_has_been_ending_for_long_is_not_waited_for_if_so_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime.now(UTC)
    old = WEB.model_copy(update={"state": "ending", "ending": now - timedelta(minutes=5)})
    young = old.model_copy(update={"name": "web-2", "ending": now})
    views = [node("n1", old, young)] * 3
    await Nodes(monkeypatch, n1=[*views, node("n1", old)]).drain("n1", skip_after=60)
    said = capsys.readouterr()
    assert "pod default/web-1 has been ending for more than 60 s, and is not waited for" in said.err
    assert said.out.splitlines()[-2:] == ["pod/web-2 evicted", "node/n1 drained"]


@pytest.mark.parametrize(
    ("change", "cordons", "said", "code"),
    [
        ("cordon", (), "node/n1 cordoned", 0),
        ("cordon", ("node",), "node/n1 cordoned", 0),
        ("cordon", ("fleet",), "node/n1 already cordoned", 0),
        ("uncordon", ("fleet",), "node/n1 uncordoned", 0),
        ("uncordon", ("fleet", "node"), "node/n1 uncordoned", 1),
        ("uncordon", ("node",), "node/n1 already uncordoned", 1),
    ],
)
def test_the_cordon_of_the_node_itself_is_told_from_that_of_the_fleet(
    change: str,
    cordons: tuple[str, ...],
    said: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nodes = Nodes(monkeypatch, n1=[node("n1", unschedulable=bool(cordons), cordons=cordons)])
    monkeypatch.setattr(fleet, "run", lambda work, **_: asyncio.run(work(NO_CLIENT)))
    assert run(["fleet", change, "n1"]) == code
    told = capsys.readouterr()
    assert told.out == f"{said}\n"
    assert ("`syncpod uncordon n1` on its machine" in told.err) is bool(code)
    assert nodes.done == [f"{change} n1"]
