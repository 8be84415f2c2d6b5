"""Reports to the node's workflow about pods of manifests; the pods run even if the workflow does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.sources import manifest_report
from syncpod.agent.sources.manifest_report import ManifestReport
from syncpod.messages.node import LISTED_LIMIT, DesiredPod, NodeView, PodKey, SourceView, StaticPods
from tests.agent.waiting import until


class Pods:
    """The pods of a directory, and the reports about them that the node's workflow receives."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.is_read = True
        self.there: tuple[DesiredPod, ...] = ()
        self.gone: tuple[PodKey, ...] = ()
        self.begun_anew: tuple[str, ...] = ()
        self.heard: list[StaticPods] = []
        self.failing = 0
        self.settled: list[str] = []

    def have(self, **states: Any) -> None:
        self.there = tuple(
            DesiredPod(name=name, uid=name, source="file", state=state) for name, state in states.items()
        )
        self.news.set()

    def report(self) -> tuple[DesiredPod, ...]:
        return self.there

    def take_ended_by_others(self) -> tuple[PodKey, ...]:
        gone, self.gone = self.gone, ()
        return gone

    def take_begun_anew(self) -> tuple[str, ...]:
        begun, self.begun_anew = self.begun_anew, ()
        return begun

    async def tell(self, pods: StaticPods) -> None:
        if self.failing:
            self.failing -= 1
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        self.heard.append(pods)

    def settle(self) -> str:
        self.settled.append("settled")
        return "a note may be lost by a power cut"


@pytest_asyncio.fixture
async def pods() -> AsyncIterator[Pods]:
    yield Pods()


async def test_only_what_has_changed_is_reported_and_each_problem_once(
    pods: Pods, caplog: pytest.LogCaptureFixture
) -> None:
    report = ManifestReport(pods, pods.tell, boot=7, settle=pods.settle)
    pods.have(web="pending")
    report.problems(("a.yaml: is no pod",))
    assert await report.round()
    assert (pods.heard[0].boot, pods.heard[0].problems, report.reported) == (7, ("a.yaml: is no pod",), True)
    assert not await report.round()
    pods.have(web="applied")
    report.problems(("a.yaml: is no pod", "b.yaml: is no pod"))
    assert await report.round()
    assert (pods.heard[1].pods[0].state, pods.heard[1].problems) == ("applied", ("b.yaml: is no pod",))
    assert pods.settled
    said = [each.message for each in caplog.records]
    assert said.count("manifest a.yaml: is no pod") == 1
    assert "manifests: a note may be lost by a power cut" in said


async def test_nothing_is_reported_before_the_directory_was_read(pods: Pods) -> None:
    """Once all its sources have reported, the node kills pods that are in none."""
    pods.is_read = False
    report = ManifestReport(pods, pods.tell, boot=7)
    assert not await report.round()
    assert not report.reported


async def test_a_report_that_was_not_received_is_sent_again_with_all_that_it_had_to_say(
    pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_report, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(manifest_report, "_RETRY_SECONDS", 0.01)
    report = ManifestReport(pods, pods.tell, boot=7)
    pods.failing, pods.gone = 2, (PodKey(name="web"),)
    report.problems(("a.yaml: is no pod",))
    pods.have(web="applied")
    running = asyncio.create_task(report.run())
    await until(lambda: bool(pods.heard))
    assert (pods.heard[0].gone, pods.heard[0].problems) == ((PodKey(name="web"),), ("a.yaml: is no pod",))
    pods.have(web="applied", job="pending")
    await until(lambda: len(pods.heard) == 2)
    assert (pods.heard[1].gone, pods.heard[1].problems) == ((), ())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_why_a_pod_begins_anew_is_reported_once_though_nothing_else_has_changed(pods: Pods) -> None:
    report = ManifestReport(pods, pods.tell, boot=7)
    pods.have(web="applied")
    assert await report.round()
    pods.begun_anew, pods.failing = ("pod web begins anew",), 1
    with pytest.raises(RPCError):
        await report.round()
    assert await report.round()
    assert not await report.round()
    assert [each.begun_anew for each in pods.heard] == [(), ("pod web begins anew",)]


async def test_a_workflow_that_has_not_this_lifes_report_is_sent_it_again(pods: Pods) -> None:
    report = ManifestReport(pods, pods.tell, boot=7)
    assert report.is_known(NodeView())
    pods.have(web="applied", job="ending")
    assert await report.round()
    assert report.is_known(NodeView(sources={"file": SourceView(boot=7, pods=1)}))
    for view in (NodeView(), NodeView(sources={"file": SourceView(boot=6, pods=1)})):
        assert not report.is_known(view)
    report.forget()
    assert await report.round()
    assert pods.heard[0] == pods.heard[1]


async def test_of_too_many_pods_those_that_wait_are_reported_first(pods: Pods) -> None:
    pods.have(**{f"p{number}": "applied" for number in range(LISTED_LIMIT + 1)}, web="pending")
    assert await ManifestReport(pods, pods.tell, boot=7).round()
    (said,) = pods.heard
    assert (len(said.pods), said.pods[0].name) == (LISTED_LIMIT, "web")
