from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent import exits as exits_module
from syncpod.agent import pleg as pleg_module
from syncpod.agent.exits import ExitFollower
from syncpod.agent.pleg import Pleg
from syncpod.lifecycle.observed import ObservedPod, ObservedSandbox
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import PlegEvent
from tests.agent.listings import Sent, SetUpReader, pod, ref, unavailable
from tests.agent.waiting import until


class Workflows:
    """Pods' workflows, which record their signals; they can be unreachable, missing, or slow to accept."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.away = False
        self.unknown = False
        self.open = asyncio.Event()
        self.open.set()
        self.asked = 0

    async def send(self, ref: PodRef, events: tuple[PlegEvent, ...], status: ObservedPod) -> bool:
        self.asked += 1
        await self.open.wait()
        if self.away:
            raise RPCError("no connection", RPCStatusCode.UNAVAILABLE, b"")
        if self.unknown:
            return False
        self.sent.append(Sent(ref, events, status))
        return True


@pytest.fixture
def reader() -> SetUpReader:
    return SetUpReader()


@pytest.fixture
def workflows() -> Workflows:
    return Workflows()


@pytest.fixture
async def pleg(reader: SetUpReader, workflows: Workflows) -> AsyncIterator[Pleg]:
    generator = Pleg(reader, workflows.send, watch=lambda listing: None)
    yield generator
    await generator.close()


async def settled() -> None:
    """Let every task run that can run."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_pod_is_signalled_when_it_appears_and_not_again_while_nothing_changes(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows
) -> None:
    reader.has(pod(web="running"))
    for _ in range(3):
        await pleg.relist()
        await settled()

    (signal,) = workflows.sent
    assert signal.ref == ref()
    assert signal.types == ["ContainerStarted", "ContainerStarted"]
    assert signal.status.containers[0].state == "running"


async def test_a_listing_in_which_nothing_has_changed_is_not_watched_as_a_change(
    reader: SetUpReader, workflows: Workflows
) -> None:
    changed: list[str] = []
    unchanged: list[str] = []
    pleg = Pleg(
        reader,
        workflows.send,
        watch=lambda listing: changed.append(listing.uid),
        watch_unchanged=lambda listing: unchanged.append(listing.uid),
    )
    reader.has(pod("u1", web="running"), pod("u2", web="running"))
    await pleg.relist()
    reader.has(pod("u1", web="running"), pod("u2", web="exited"))
    await pleg.relist()
    reader.has(pod("u1", web="running"))
    await pleg.relist()
    await pleg.close()

    assert changed == ["u1", "u2", "u2", "u2"]
    assert unchanged == ["u1", "u1"]


async def test_an_exit_is_signalled_only_to_its_pod(pleg: Pleg, reader: SetUpReader, workflows: Workflows) -> None:
    reader.has(pod("u1", web="running"), pod("u2", web="running"))
    await pleg.relist()
    await settled()
    workflows.sent.clear()

    reader.has(pod("u1", web="running"), pod("u2", web="exited"))
    await pleg.relist()
    await settled()

    (signal,) = workflows.sent
    assert (signal.ref.uid, signal.types) == ("u2", ["ContainerDied"])


async def test_changes_during_a_send_are_merged_into_the_next_signal(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows
) -> None:
    workflows.open.clear()
    reader.has(pod(web="running"))
    await pleg.relist()
    await settled()
    for states in ({"web": "exited"}, {"web": "exited", "log": "running"}, {"web": "exited", "log": "exited"}):
        reader.has(pod(**states))  # type: ignore[arg-type]
        await pleg.relist()
        await settled()
    assert workflows.asked == 1

    workflows.open.set()
    await until(lambda: len(workflows.sent) == 2)
    await settled()

    assert len(workflows.sent) == 2
    assert [container.state for container in workflows.sent[1].status.containers] == ["exited", "exited"]
    assert workflows.sent[1].types == ["ContainerDied", "ContainerDied"]


async def test_a_change_during_a_send_is_not_lost(pleg: Pleg, reader: SetUpReader, workflows: Workflows) -> None:
    workflows.open.clear()
    reader.has(pod(web="running"))
    await pleg.relist()
    await settled()
    await pleg.wake(ref(), "RuntimeReady")
    await settled()
    assert workflows.asked == 1

    workflows.open.set()
    await until(lambda: len(workflows.sent) == 2)
    assert workflows.sent[1].types == ["RuntimeReady"]


async def test_a_signal_is_repeated_until_the_server_takes_it(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pleg_module, "RETRY_SECONDS", (0.001, 0.001))
    workflows.away = True
    reader.has(pod(web="running"))
    await pleg.relist()
    await until(lambda: workflows.asked > 3)
    reader.has(pod(web="exited"))
    await pleg.relist()
    workflows.away = False
    await until(lambda: bool(workflows.sent))
    await settled()

    (signal,) = workflows.sent
    assert signal.status.containers[0].state == "exited"


async def test_changes_returned_by_a_step_are_not_signalled(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows
) -> None:
    reader.has(pod(web="running"))
    pleg.returned(await reader.read("u1"))
    await pleg.relist()
    await settled()

    assert workflows.sent == []


async def test_changes_during_a_step_are_signalled_only_if_the_step_did_not_report_them(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows
) -> None:
    pleg.step_began("u1")
    reader.has(pod(web="created"))
    await pleg.relist()
    await settled()
    assert workflows.sent == []

    reader.has(pod(web="running"))
    pleg.returned(await reader.read("u1"))
    reader.has(pod(web="exited"))
    await pleg.relist()
    await settled()
    assert workflows.sent == []

    pleg.step_ended("u1")
    await settled()
    assert [signal.types for signal in workflows.sent] == [["ContainerDied"]]


async def test_changes_during_a_long_step_are_signalled(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pleg_module, "STEP_PATIENCE", 0.0)
    pleg.step_began("u1")
    reader.has(pod(web="exited"))
    await pleg.relist()
    await settled()

    assert len(workflows.sent) == 1


async def test_a_step_that_had_to_wait_for_its_turn_is_given_time_from_then_on(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, if many pods end, each would get a signal with the listing that its own kill is about to return."""
    now = 1000.0
    monkeypatch.setattr(pleg_module, "time", SimpleNamespace(monotonic=lambda: now))
    pleg.step_began("u1")
    now += pleg_module.STEP_PATIENCE
    assert not pleg.busy("u1")

    pleg.step_acts("u1")
    reader.has(pod(web="exited"))
    await pleg.relist()
    await settled()
    assert workflows.sent == []

    now += pleg_module.STEP_PATIENCE
    await pleg.relist()
    await settled()
    assert len(workflows.sent) == 1
    pleg.step_ended("u1")
    pleg.step_acts("u1")
    assert not pleg.busy("u1")


async def test_a_step_in_a_crowd_is_given_time_for_the_others_but_not_without_end(
    pleg: Pleg, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, if many pods end, each would get a signal with the listing that its own kill is about to return."""
    now = 1000.0
    monkeypatch.setattr(pleg_module, "time", SimpleNamespace(monotonic=lambda: now))
    each, most = pleg_module.CROWD_PATIENCE
    for number in range(31):
        pleg.step_began(f"u{number}")
    pleg.step_began("u1")  # a pod counts once, whatever its events
    now += pleg_module.STEP_PATIENCE + 29.5 * each
    assert pleg.busy("u1")
    now += each
    assert not pleg.busy("u1")

    for number in range(1000):
        pleg.step_began(f"other-{number}")
    now = 1000.0 + pleg_module.STEP_PATIENCE + most
    assert not pleg.busy("u1")

    for uid in (*(f"u{number}" for number in range(2, 31)), *(f"other-{number}" for number in range(1000))):
        pleg.step_ended(uid)
    pleg.step_began("last")
    now += pleg_module.STEP_PATIENCE + 1.5 * each
    assert pleg.busy("last")
    now += each
    assert not pleg.busy("last")


async def test_a_late_older_listing_changes_nothing(pleg: Pleg, reader: SetUpReader, workflows: Workflows) -> None:
    late = reader.numbered(pod(web="running"))
    reader.has(pod(web="exited"))
    await pleg.relist()
    await settled()
    pleg.observe(late)
    pleg.returned(late)
    await settled()

    assert len(workflows.sent) == 1
    newest = pleg.newest("u1")
    assert newest is not None
    assert newest.containers[0].state == "exited"


async def test_a_pod_removed_from_the_runtime_is_signalled_and_then_forgotten(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows
) -> None:
    reader.has(pod(web="exited"))
    await pleg.relist()
    await settled()
    reader.has()
    await pleg.relist()
    await settled()

    gone = workflows.sent[-1]
    assert gone.ref == ref()
    assert gone.types == ["ContainerDied", "ContainerRemoved", "ContainerRemoved"]
    assert (gone.status.sandboxes, gone.status.containers) == ((), ())
    assert pleg.newest("u1") is None


async def test_the_number_of_a_forgotten_pods_last_listing_is_kept_for_a_while(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = reader.numbered(pod(web="exited")).seq
    reader.has(pod(web="exited"))
    await pleg.relist()
    await settled()
    reader.has()
    await pleg.relist()
    await settled()
    assert pleg.has_seen("u1", before)
    monkeypatch.setattr(pleg_module, "FORGOTTEN_SECONDS", -1.0)
    await pleg.relist()
    assert not pleg._forgotten


async def test_an_unreadable_pod_does_not_count_as_removed_and_delays_no_other(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows
) -> None:
    reader.has(pod("u1", web="running"), pod("u2", web="running"))
    await pleg.relist()
    await settled()
    workflows.sent.clear()

    reader.broken["u1"] = unavailable()
    reader.has(pod("u1", web="exited"), pod("u2", web="exited"))
    await pleg.relist()
    await settled()
    assert [signal.ref.uid for signal in workflows.sent] == ["u2"]

    del reader.broken["u1"]
    await pleg.relist()
    await settled()
    assert [signal.ref.uid for signal in workflows.sent] == ["u2", "u1"]


async def test_a_created_container_is_not_signalled(pleg: Pleg, reader: SetUpReader, workflows: Workflows) -> None:
    reader.has(pod(web="running"))
    await pleg.relist()
    await settled()
    workflows.sent.clear()
    reader.has(pod(web="running", log="created"))
    await pleg.relist()
    await settled()

    assert workflows.sent == []


async def test_a_container_in_unknown_state_is_signalled(pleg: Pleg, reader: SetUpReader, workflows: Workflows) -> None:
    reader.has(pod(web="running"))
    await pleg.relist()
    await settled()
    reader.has(pod(web="unknown"))
    await pleg.relist()
    await settled()

    assert workflows.sent[-1].types == ["ContainerChanged"]


async def test_a_dead_pod_without_a_workflow_is_not_logged_for_the_node_will_remove_it(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows, caplog: pytest.LogCaptureFixture
) -> None:
    workflows.unknown = True
    stopped = ObservedSandbox(id="u1-sandbox", state="SANDBOX_NOTREADY")
    reader.has(pod(web="exited").model_copy(update={"sandboxes": (stopped,)}))
    await pleg.relist()
    await settled()
    assert (workflows.asked, caplog.records) == (1, [])


async def test_a_pod_without_a_workflow_is_left_alone_and_logged_once(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows, caplog: pytest.LogCaptureFixture
) -> None:
    workflows.unknown = True
    reader.has(pod(web="running"))
    for _ in range(5):
        await pleg.relist()
        await settled()
    assert workflows.asked == 1
    assert [record.getMessage() for record in caplog.records] == [
        "pod default/name-u1 (uid u1) is in the runtime, but no workflow asks for it; it is left as it is"
    ]

    # A step of the pod means that it is needed now.
    workflows.unknown = False
    pleg.returned(await reader.read("u1"))
    reader.has(pod(web="exited"))
    await pleg.relist()
    await settled()
    assert len(workflows.sent) == 1


async def test_a_wake_is_sent_without_changes_even_to_a_pod_unknown_to_the_runtime(
    pleg: Pleg, reader: SetUpReader, workflows: Workflows
) -> None:
    await pleg.wake(ref(), "RuntimeReady")
    await settled()

    (signal,) = workflows.sent
    assert (signal.ref, signal.types) == (ref(), ["RuntimeReady"])
    assert signal.status.uid == "u1"
    assert signal.status.seq.counter > 0
    assert pleg.newest("u1") is None


async def test_a_pleg_that_has_not_relisted_is_not_healthy(
    pleg: Pleg, reader: SetUpReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pleg.unhealthy() == "pleg has yet to be successful"
    await pleg.relist()
    assert pleg.unhealthy() == ""
    monkeypatch.setattr(pleg_module, "RELIST_THRESHOLD_SECONDS", -1.0)
    assert pleg.unhealthy() == "pleg was last seen active more than -1s ago"


async def test_an_exit_during_a_step_is_left_to_the_step_and_read_once_it_is_over(
    pleg: Pleg, reader: SetUpReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.has(pod(main="running"))
    await pleg.look("u1")
    exits, reads = ExitFollower(pleg), reader.reads
    monkeypatch.setattr(pleg_module, "STEP_PATIENCE", 600.0)
    monkeypatch.setattr(exits_module, "GIVE_UP_SECONDS", 600.0)
    pleg.step_began("u1")
    pleg.step_began("u1")
    exits.exited("u1", "u1-main")
    await settled()
    pleg.step_ended("u1")
    await settled()
    assert reader.reads == reads
    reader.has(pod(main="exited"))
    pleg.step_ended("u1")
    await until(lambda: reader.reads == reads + 1)
    await exits.close()


async def test_a_step_that_takes_long_keeps_no_exit_from_being_read(
    pleg: Pleg, reader: SetUpReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.has(pod(main="running"))
    await pleg.look("u1")
    exits, reads = ExitFollower(pleg), reader.reads
    monkeypatch.setattr(pleg_module, "STEP_PATIENCE", 0.01)
    monkeypatch.setattr(exits_module, "GIVE_UP_SECONDS", 600.0)
    pleg.step_began("u1")
    exits.exited("u1", "u1-main")
    await until(lambda: reader.reads > reads)
    await exits.close()
