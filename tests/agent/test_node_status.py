"""The node's status is sent when it has changed, and retried until it is accepted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.node_workflow.status import REWORDED_SECONDS, NodeStatusReporter, node_info, quantities
from syncpod.agent.takeover.lock import NodeLife
from syncpod.cri.port import RuntimeVersion
from syncpod.messages.node import NodeInfo, NodeStatus, NodeView
from syncpod.node.report import NodeCondition, NodeReport
from syncpod.translation.context import Host, NodeContext
from workflows.node import absorb, report
from workflows.node.state import NodeState

NOW = datetime(2026, 11, 1, tzinfo=UTC)


class Heard:
    """A node's workflow that records its signals."""

    def __init__(self) -> None:
        self.statuses: list[NodeStatus] = []
        self.away = False

    async def tell(self, status: NodeStatus) -> None:
        if self.away:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        self.statuses.append(status)


async def test_a_changed_node_status_is_sent_until_accepted(tmp_path: Path) -> None:
    heard, obstacles, reported, runtime = Heard(), [""], [False], ["containerd://2.4.2"]
    measured = [NodeReport()]
    context = NodeContext(
        name="n1",
        state_dir=tmp_path,
        memory_dir=tmp_path,
        log_dir=tmp_path,
        cluster="c",
        capacity={"cpu": 1500, "memory": 2**30, "pods": 7},
        labels={"disk": "ssd"},
        host=Host(addresses=("10.0.0.1",)),
    )
    teller = NodeStatusReporter(
        context,
        NodeLife("n1", "machine", 4),
        lambda: NodeInfo(kubelet_version="v1", container_runtime_version=runtime[0]),
        heard.tell,
        report=lambda: measured[0],
        obstacles=lambda: tuple(filter(None, obstacles)),
        sources={"file": lambda: reported[0]},
    )
    assert await teller.round()
    assert not await teller.round()
    runtime[0] = "containerd://2.4.3"
    assert await teller.round()
    assert heard.statuses.pop().node_info.container_runtime_version == "containerd://2.4.3"
    runtime[0] = "containerd://2.4.2"
    assert await teller.round()
    heard.statuses.pop()
    teller.forget()
    assert await teller.round()
    assert heard.statuses.pop() == heard.statuses[0]
    state = NodeState()
    absorb.absorb(state, "node_status", (json.loads(heard.statuses[0].model_dump_json()),), NOW)
    assert teller.is_known(_shown(state))
    absorb.absorb(state, "node_status", ({},), NOW)  # sent by hand
    assert not teller.is_known(_shown(state))
    (first,) = heard.statuses
    assert (first.boot, first.identity, first.sources, first.sources_ready) == (4, "n1/machine/4", ("file",), False)
    assert first.labels == {"disk": "ssd"}
    assert first.capacity == {"cpu": "1500m", "memory": "1048576Ki", "pods": "7"}
    assert [(each.type, each.address) for each in first.addresses] == [("InternalIP", "10.0.0.1"), ("Hostname", "n1")]
    assert {each.type: each.status for each in first.conditions} == {"Ready": "True"}

    pressed = NodeCondition(type="DiskPressure", status="True", reason="KubeletHasDiskPressure")
    measured[0] = NodeReport(conditions=(pressed,))
    obstacles[0], reported[0], heard.away = "the runtime does not answer", True, True
    with pytest.raises(RPCError):
        await teller.round()
    heard.away = False
    assert await teller.round()
    second = heard.statuses[-1]
    assert second.sources_ready
    conditions = {each.type: (each.status, each.reason, each.message) for each in second.conditions}
    assert conditions["Ready"] == ("False", "KubeletNotReady", "the runtime does not answer")
    assert conditions["DiskPressure"][:2] == ("True", "KubeletHasDiskPressure")
    before, after = first.conditions[-1].last_transition_time, second.conditions[-1].last_transition_time
    assert before is not None
    assert after is not None
    assert after > before


async def test_a_node_status_that_changed_only_in_messages_is_sent_rarely(tmp_path: Path) -> None:
    """A runtime that is down all night does not fill the history."""
    heard, obstacles, clock = Heard(), [""], [0.0]
    context = NodeContext(name="n1", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c")
    teller = NodeStatusReporter(
        context,
        NodeLife("n1", "machine", 4),
        NodeInfo,
        heard.tell,
        report=NodeReport,
        obstacles=lambda: tuple(filter(None, obstacles)),
        sources={},
        clock=lambda: clock[0],
    )
    assert await teller.round()
    obstacles[0] = "the runtime has not answered for 1 s"
    assert await teller.round()
    for seconds in range(2, 300):
        clock[0] = seconds
        obstacles[0] = f"the runtime has not answered for {seconds} s"
        assert not await teller.round()
    clock[0] = REWORDED_SECONDS
    assert await teller.round()
    assert heard.statuses[-1].conditions[-1].message == "the runtime has not answered for 299 s"
    obstacles[0] = ""
    assert await teller.round(), "that it is well again is told at once"


async def test_an_outage_of_the_server_is_told_once_it_is_over(tmp_path: Path) -> None:
    heard = Heard()
    context = NodeContext(name="n1", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c")
    life = NodeLife("n1", "machine", 4)
    teller = NodeStatusReporter(context, life, NodeInfo, heard.tell, report=NodeReport, obstacles=tuple, sources={})
    assert await teller.round()
    teller.outage(NOW, None)
    assert not await teller.round()
    for minutes in range(1, 9):
        teller.outage(NOW, NOW + timedelta(minutes=minutes))
    assert await teller.round()
    assert not await teller.round()
    ends = [each.ended for each in heard.statuses[-1].outages]
    assert ends == [NOW + timedelta(minutes=minutes) for minutes in range(4, 9)], "the last five"


def _shown(state: NodeState) -> NodeView:
    return NodeView.model_validate_json(report.view(state, NOW).model_dump_json(by_alias=True))


def test_machine_facts_have_the_field_names_of_a_v1_node(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('NAME=x\nPRETTY_NAME="Debian 12"\n')
    info = node_info(RuntimeVersion(name="containerd", version="v1.6.20"), tmp_path)
    assert (info.container_runtime_version, info.os_image) == ("containerd://1.6.20", "Debian 12")
    assert info.operating_system == "linux"
    assert info.kubelet_version.startswith("v")
    assert node_info(RuntimeVersion(name="a", version="1"), tmp_path / "none").os_image == "Unknown"


def test_node_amounts_are_quantities() -> None:
    assert quantities({"cpu": 2000, "ephemeral-storage": 4096, "hugepages-2Mi": 0}) == {
        "cpu": "2",
        "ephemeral-storage": "4Ki",
        "hugepages-2Mi": "0Ki",
    }
