"""A node in its fleet: the lists that it accepts, its reports to its workflow, and pods that it stops when cut off."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from syncpod.agent.fleet import member
from syncpod.agent.fleet.contact import RETURN_SECONDS, Contact
from syncpod.agent.fleet.kept_intent import BROKEN_NAME, FILE_NAME, keep_intent, read_intent
from syncpod.agent.fleet.member import FleetMembership
from syncpod.agent.fleet.objects import FleetObjects
from syncpod.agent.fleet.remote_commands import RemoteCommands
from syncpod.agent.fleet.reports import FleetReports
from syncpod.agent.published_pods import PublishedPods
from syncpod.messages.fleet import Attend, Attended, Intent, WhoAsks
from syncpod.messages.node import DesiredPod, NodeView, SourceView, SyncPods
from syncpod.objects import ObjectStore
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import EARLIER_FILE_NAME, read_earlier_keys
from syncpod.translation.context import NodeContext

INVITATION = Invitation("f", "n1", "localhost:1", "gate.f.syncpod", "default", "", "", "", "")


def pod(name: str, lost: str = "") -> dict[str, Any]:
    """A pod of a list, with its rule for a lost node."""
    annotations = {"syncpod.dev/when-lost": lost} if lost else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
    }


@dataclass
class Bench:
    """A member whose node's workflow is a list of signals, and whose clock a test sets."""

    state_dir: Path
    now: float = 1000.0
    boot: str = "boot-1"
    told: list[list[str]] = field(default_factory=list)
    open: dict[str, str] = field(default_factory=dict)
    fails: bool = False

    def __post_init__(self) -> None:
        self.contact = Contact(self.state_dir, lambda: self.now, self.boot)
        here = self.state_dir
        node = NodeContext(name="n1", state_dir=here, memory_dir=here, log_dir=here, cluster="c")
        reports = FleetReports(PublishedPods(node), "n1")
        self.member = FleetMembership(
            INVITATION,
            self.state_dir,
            reports,
            contact=self.contact,
            remote_commands=RemoteCommands("n1", {}),
            objects=FleetObjects(INVITATION, ObjectStore(here, here)),
            tell=self.tell,
            open_pods=self.open_pods,
        )

    async def tell(self, pods: SyncPods) -> None:
        if self.fails:
            raise OSError("away")
        self.told.append([each["metadata"]["name"] for each in pods.pods])

    async def open_pods(self) -> dict[str, str]:
        return self.open

    def intent(self, generation: int, *pods: dict[str, Any], node: str = "n1", stamp: int = 0) -> Intent:
        return Intent(fleet="f", node=node, generation=generation, stamp=stamp, pods=pods)

    def note_contact(self, *, after: float) -> None:
        """Let the node hear its fleet every few seconds for this long."""
        for _ in range(int(after // 5)):
            self.now += 5
            self.contact.note_contact()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@contextmanager
def refused(kind: str) -> Iterator[None]:
    with pytest.raises(ApplicationError) as error:
        yield
    assert (error.value.type, error.value.non_retryable) == (kind, True)
    assert error.value.category == ApplicationErrorCategory.BENIGN, "the SDK logs no traceback of it"


async def test_a_node_that_goes_away_in_order_says_so_and_one_that_has_never_reported_says_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "PARTING_SECONDS", 0.01)
    silent = Bench(bench.state_dir)
    await silent.member.part("it was stopped")
    assert silent.member.farewell() == Attended(), "its report would have neither capacity nor labels"
    monkeypatch.setattr(FleetReports, "is_complete", lambda *_: True)
    monkeypatch.setattr(member, "PARTING_SECONDS", 60.0)
    first = await bench.member.attend(Attend(fleet="f", node="n1"))
    assert bench.member.farewell() == Attended(), "it does not go away"
    asked = asyncio.create_task(bench.member.attend(Attend(fleet="f", node="n1", version=first.version)))
    await bench.member.part("it was stopped")
    said = await asked
    assert bench.member.farewell() == Attended(), "it is said once"
    assert said.node is not None and not said.node.ready and said.present is None
    assert [(each.type, each.status, each.message) for each in said.node.conditions] == [
        ("Ready", "False", "it was stopped")
    ]
    assert said.life, "as each answer of this worker"


async def test_an_older_list_is_refused_also_by_the_next_worker(bench: Bench) -> None:
    await bench.member.take(bench.intent(7, pod("web")))
    later = Bench(bench.state_dir)
    with refused("StaleIntent"):
        await later.member.take(bench.intent(6))
    assert (await later.member.recall(WhoAsks(fleet="f", node="n1"))).generation == 7
    assert later.told == []
    assert read_intent(bench.state_dir).generation == 7
    assert (bench.state_dir / "fleet-intent.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [(b'"pods"', b'"p\xefds"'), (b'"pods":[', b'"pods":Z')])
async def test_a_damaged_list_is_set_aside_and_the_fleet_sends_its_own_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, damage: tuple[bytes, bytes]
) -> None:
    """Before, the node took no list and gave no report any more: the fleet called it Unknown for ever."""
    monkeypatch.setattr(FleetReports, "is_complete", lambda *_: True)
    await bench.member.take(bench.intent(7, pod("web")))
    file = bench.state_dir / FILE_NAME
    file.write_bytes(file.read_bytes().replace(*damage))
    later = Bench(bench.state_dir)
    await later.member.mind_silence()
    await later.member.send_again(None)
    assert later.told == [], "what runs goes on until the fleet has sent its list"
    assert (await later.member.attend(Attend(fleet="f", node="n1"))).generation == 0, "the fleet sends its list"
    await later.member.take(bench.intent(7, pod("web")))
    assert (later.told, read_intent(bench.state_dir).generation) == ([["web"]], 7)
    assert damage[1] in (bench.state_dir / BROKEN_NAME).read_bytes()


async def test_another_list_with_the_same_number_is_refused_but_the_same_one_is_taken_again(bench: Bench) -> None:
    """The next list of a fleet whose database was restored may have a number that the node knows."""
    for _ in range(2):
        await bench.member.take(bench.intent(7, pod("web"), stamp=1))
    with refused("StaleIntent"):
        await bench.member.take(bench.intent(7, pod("db"), stamp=2))
    assert bench.told == [["web"], ["web"]]


@pytest.mark.parametrize(
    ("generation", "stamp", "says"),
    [
        (0, 0, ""),
        (6, 1, ""),  # the fleet knows that it was taken, or a newer one, if the node's own disk was set back
        (7, 20, ""),  # it was sent, and its answer was lost
        (
            7,
            5,
            "list 7, which is missing in the fleet's database, as list 9 shows",
        ),  # its database was set back
        (9, 5, "list 9, which is missing in the fleet's database, as list 9 shows"),
        (9, 90, ""),  # this list itself
        (10, 100, "list 10, which is newer than 9"),
        (8, 0, "list 8, which is missing in the fleet's database, as list 9 shows"),  # the node was removed meanwhile
    ],
)
def test_a_node_takes_no_list_of_a_fleet_that_does_not_know_the_one_it_has(
    generation: int, stamp: int, says: str
) -> None:
    sent = Intent(generation=9, stamp=90, taken=6, after=(20, 30))
    assert member.why_stale(Intent(generation=generation, stamp=stamp), sent) == says


async def test_a_report_has_the_number_of_no_other_fleets_list(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a number that this fleet has not reached, it would take the node's list for a newer one of its own."""
    monkeypatch.setattr(FleetReports, "is_complete", lambda *_: True)
    keep_intent(bench.state_dir, Intent(fleet="another", node="n1", generation=50, pods=(pod("web"),)))
    assert (await bench.member.attend(Attend(fleet="f", node="n1"))).generation == 0
    await bench.member.take(bench.intent(1))
    assert (await bench.member.attend(Attend(fleet="f", node="n1"))).generation == 1


async def test_a_node_with_an_older_list_than_it_had_taken_says_so_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk was restored from a backup. The fleet would wait up to ten minutes for a change there."""
    monkeypatch.setattr(FleetReports, "is_complete", lambda *_: True)
    monkeypatch.setattr(member, "COALESCED_SECONDS", 0.0)
    await bench.member.take(bench.intent(3, pod("web")))
    first = await bench.member.attend(Attend(fleet="f", node="n1", taken=5))
    assert (first.generation, first.lacks) == (3, 5)
    nothing_else = await bench.member.attend(Attend(fleet="f", node="n1", version=first.version, taken=5))
    assert (nothing_else.generation, nothing_else.lacks, nothing_else.node) == (3, 5, None)
    await bench.member.take(bench.intent(5))
    assert (await bench.member.attend(Attend(fleet="f", node="n1", taken=5))).lacks == 0


async def test_a_node_that_was_removed_ends_its_pods_and_takes_no_list_from_before(bench: Bench) -> None:
    await bench.member.take(bench.intent(7, pod("web"), pod("db")))
    bench.fails = True
    with pytest.raises(OSError, match="away"):
        await bench.member.dismiss()
    assert read_intent(bench.state_dir).generation == 7, "its own workflow was not told: it is done again"
    bench.fails = False
    for _ in range(2):
        await bench.member.dismiss()
    assert bench.told == [["web", "db"], []]
    with refused("StaleIntent"):
        await bench.member.take(bench.intent(7, pod("web")))
    assert (read_intent(bench.state_dir).generation, read_intent(bench.state_dir).pods) == (8, ())


async def test_an_earlier_key_goes_once_no_list_needs_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = [True]

    def keep(objects: FleetObjects, _given: object) -> dict[str, str]:
        objects.needs_earlier = needed[0]
        return {}

    monkeypatch.setattr(FleetObjects, "keep", keep)
    (bench.state_dir / EARLIER_FILE_NAME).write_text('["key"]')
    await bench.member.take(bench.intent(7))
    assert read_earlier_keys(bench.state_dir) == ("key",), "the new list is still sealed for it"
    needed[0] = False
    await bench.member.take(bench.intent(8))
    assert read_earlier_keys(bench.state_dir) == ()


async def test_each_answer_says_which_life_of_the_worker_gives_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FleetReports, "is_complete", lambda *_: True)
    monkeypatch.setattr(member, "COALESCED_SECONDS", 0.0)
    later, lives = Bench(bench.state_dir), []
    for each in (bench, later):
        taken = await each.member.take(each.intent(7))
        report = await each.member.attend(Attend(fleet="f", node="n1"))
        asked = Attend(fleet="f", node="n1", version=report.version, seconds=-1)
        nothing_new = await each.member.attend(asked)
        assert nothing_new.node is None, "it waits no longer than it is asked to"
        assert {one.machine for one in (taken, report, nothing_new)} == {socket.gethostname()}
        lives.append({one.life for one in (taken, report, nothing_new)})
    assert [len(each) for each in lives] == [1, 1] and not lives[0] & lives[1]


async def test_another_fleets_list_is_refused(bench: Bench) -> None:
    with refused("ForeignIntent"):
        await bench.member.take(bench.intent(1, node="n2"))
    with refused("ForeignIntent"):
        await bench.member.recall(WhoAsks(fleet="g", node="n1"))


async def test_a_pod_that_no_node_could_run_is_refused_alone(bench: Bench) -> None:
    wrong = pod("wrong")
    wrong["spec"]["containers"] = []
    taken = await bench.member.take(bench.intent(1, pod("web"), wrong))
    assert bench.told == [["web"]]
    assert "spec.containers" in taken.refused["default/wrong"]


async def test_a_pod_that_somebody_has_ended_is_told_again_at_the_second_look(bench: Bench) -> None:
    await bench.member.take(bench.intent(1, pod("web"), pod("db")))
    bench.open = {"pod/default/db": "run"}
    desired = tuple(DesiredPod(name=name, source="fleet", state="applied") for name in ("web", "db"))
    view = NodeView(sources={"fleet": SourceView()}, desired=desired)
    await bench.member.send_again(view)
    assert len(bench.told) == 1
    await bench.member.send_again(view)
    assert bench.told[1:] == [["web", "db"]]


async def test_a_new_workflow_of_the_node_is_told_the_list(bench: Bench) -> None:
    await bench.member.send_again(None)
    assert bench.told == [], "the node was never given a list"
    await bench.member.take(bench.intent(1, pod("web")))
    await bench.member.send_again(NodeView())
    assert bench.told[1:] == [["web"]]


async def test_a_cut_off_node_stops_what_must_not_run_without_the_fleet(bench: Bench) -> None:
    moves, stops = pod("moves", "replace-after=1m"), pod("stops", "stop-after=1m")
    await bench.member.take(bench.intent(1, pod("waits"), moves, stops))
    bench.note_contact(after=40)
    bench.now += 59
    await bench.member.mind_silence()
    assert len(bench.told) == 1
    bench.now += 1
    await bench.member.mind_silence()
    assert bench.told[1:] == [["waits", "moves"]]
    bench.note_contact(after=RETURN_SECONDS - 5)
    await bench.member.mind_silence()
    assert len(bench.told) == 2, "the fleet has not had the time to say which of two copies goes"
    await bench.member.take(bench.intent(2, pod("waits"), pod("stops", "stop-after=1m")))
    assert bench.told[2:] == [["waits"]]
    bench.note_contact(after=15)
    await bench.member.mind_silence()
    assert bench.told[3:] == [["waits", "stops"]]


@pytest.mark.parametrize(
    ("seconds", "clock_moved", "reboots", "stops"),
    [
        pytest.param(50, 3600, False, False, id="a clock that is set right does not count"),
        pytest.param(66, -3600, False, True, id="nor does one that is set back"),
        pytest.param(90, 0, True, True, id="a reboot"),
        pytest.param(40, 0, True, False, id="a short reboot"),
        pytest.param(40, -3600, True, True, id="a reboot that sets the clock back"),
        pytest.param(40, -20, True, True, id="a reboot after which the clock is less ahead than the machine is up"),
    ],
)
async def test_a_restarted_worker_counts_on(
    bench: Bench, seconds: float, clock_moved: float, reboots: bool, stops: bool
) -> None:
    await bench.member.take(bench.intent(1, pod("stops", "stop-after=1m")))
    bench.note_contact(after=40)
    noted = time.time() - seconds - clock_moved
    os.utime(bench.state_dir / "fleet-contact", (noted, noted))
    later = (
        Bench(bench.state_dir, now=25, boot="boot-2") if reboots else Bench(bench.state_dir, now=bench.now + seconds)
    )
    await later.member.mind_silence()
    assert later.told == ([[]] if stops else [])


async def test_a_pod_of_which_a_node_learns_when_it_is_back_waits_until_the_contact_is_steady(bench: Bench) -> None:
    """It was placed there just before the node was lost. The fleet may have replaced it since."""
    bench.note_contact(after=60)
    bench.now += 300
    bench.note_contact(after=5)
    late, slow = pod("late", "stop-after=1m"), pod("slow", "stop-after=10m")
    await bench.member.take(bench.intent(1, pod("waits"), late, slow))
    assert bench.told == [["waits", "slow"]]
    bench.now += RETURN_SECONDS + 5
    bench.note_contact(after=20)
    await bench.member.mind_silence()
    assert len(bench.told) == 1, "the contact was lost again, and is not steady yet"
    bench.note_contact(after=15)
    await bench.member.mind_silence()
    assert bench.told[1:] == [["waits", "late", "slow"]]


async def test_a_worker_that_hears_the_fleet_before_its_first_look_stops_what_was_replaced(bench: Bench) -> None:
    await bench.member.take(bench.intent(1, pod("stops", "stop-after=1m")))
    bench.note_contact(after=40)
    later = Bench(bench.state_dir, now=bench.now + 300)
    later.note_contact(after=5)
    await later.member.mind_silence()
    assert later.told == [[]]
    later.note_contact(after=RETURN_SECONDS)
    await later.member.mind_silence()
    assert later.told[1:] == [["stops"]]


async def test_a_stop_that_could_not_be_told_is_tried_again(bench: Bench) -> None:
    await bench.member.take(bench.intent(1, pod("stops", "stop-after=1m")))
    bench.now, bench.fails = bench.now + 120, True
    with pytest.raises(OSError, match="away"):
        await bench.member.mind_silence()
    bench.fails = False
    await bench.member.mind_silence()
    assert bench.told[1:] == [[]]
