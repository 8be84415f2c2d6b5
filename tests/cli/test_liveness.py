"""Whether a node's worker counts as alive, by its last heartbeat.

Holds: A busy worker is not reported as away.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from syncpod.cli.temporal import liveness
from syncpod.cli.temporal.liveness import GRACE, POLLED_WITHIN, Liveness, Sign, judge, unserved_queue
from syncpod.messages.identity import node_task_queue
from syncpod.settings.kept import KeptSettings, write_kept_settings
from syncpod.settings.worker_record import remove_worker_record, write_worker_record
from syncpod.temporal.sdk_runtimes import HEARTBEAT
from tests.agent.waiting import until_asked
from tests.cli.conftest import Command
from tests.cli.manifests import fresh_name
from tests.runtimes.temporal import DevServer
from tests.worker.test_node_settings import RECORD

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def sign(seconds_ago: float, *, beats: bool = True, identity: str = "n1/machine/7") -> Sign:
    return Sign(identity, NOW - timedelta(seconds=seconds_ago), beats)


@pytest.mark.parametrize(
    ("signs", "life"),
    [
        ((), Liveness(False, None)),
        ((sign(GRACE.total_seconds() - 1),), Liveness(True, NOW - GRACE + timedelta(seconds=1))),
        ((sign(GRACE.total_seconds()),), Liveness(False, NOW - GRACE)),
        ((sign(GRACE.total_seconds(), beats=False),), Liveness(True, NOW - GRACE)),
        ((sign(POLLED_WITHIN.total_seconds(), beats=False),), Liveness(False, NOW - POLLED_WITHIN)),
        ((sign(500, identity="n1/machine/6"), sign(3)), Liveness(True, NOW - timedelta(seconds=3))),
    ],
    ids=["never heard of", "beats", "beats no more", "polls", "polls no more", "the next of two"],
)
def test_a_recently_seen_worker_counts_as_alive(signs: tuple[Sign, ...], life: Liveness) -> None:
    assert judge(signs, NOW) == life


def test_a_fleets_worker_sends_several_heartbeats_before_it_counts_as_dead() -> None:
    """The SDK's own interval is longer: a worker at rest, whose poll lasts a minute, would be taken for dead."""
    assert 2 * HEARTBEAT < GRACE


def test_a_local_process_decides_over_the_servers_last_poll() -> None:
    assert judge((), NOW, here=True) == Liveness(True, NOW)
    assert judge((sign(1),), NOW, dead="n1/machine/7") == Liveness(False, None)
    assert judge((sign(1, identity="n1/machine/8"),), NOW, dead="n1/machine/7").lives
    assert not judge((sign(1), sign(2, identity="n1/machine/9")), NOW, dead="n1/machine/10").lives, "their predecessors"
    assert judge((sign(1, identity="n1/another/9"),), NOW, dead="n1/machine/10").lives


async def test_nobody_serves_a_node_whose_worker_has_ended_unless_another_is_heard(
    client: Client, temporal_server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(tmp_path))
    assert await unserved_queue(client) == "", "no node is here"
    node = f"n-{fresh_name()}"
    killed = subprocess.Popen([sys.executable, "-c", ""])  # noqa: ASYNC220  # it ends by itself
    await asyncio.to_thread(os.waitid, os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # its zombie stays until `wait`
    worker = replace(RECORD, pid=killed.pid, node=node, address=temporal_server.address)
    for record, queue in (
        (worker, node_task_queue(node)),
        (replace(worker, pid=os.getpid()), ""),
        (replace(worker, address="127.0.0.1:1"), ""),
        (replace(worker, namespace="other"), ""),
    ):
        write_worker_record(tmp_path, record)
        assert await unserved_queue(client) == queue, record
    killed.wait()
    remove_worker_record(tmp_path)
    kept = KeptSettings({"SYNCPOD_NODE": node}, address=temporal_server.address, namespace="default")
    write_kept_settings(tmp_path, kept)
    assert await unserved_queue(client) == node_task_queue(node), "it was stopped"

    async def heard(_client: Client, _node: str) -> bool:
        return True

    monkeypatch.setattr(liveness, "lives", heard)
    assert await unserved_queue(client) == ""


async def test_the_servers_records_of_workers_are_read_once_in_a_while(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of many pods that wait for one node, and each part of a command, checks whether the node is alive."""
    sent: list[str] = []
    send = client.service_client._rpc_call

    async def counted(rpc: str, *args: Any, **more: Any) -> Any:
        sent.append(rpc)
        return await send(rpc, *args, **more)

    monkeypatch.setattr(client.service_client, "_rpc_call", counted)
    monkeypatch.setattr(liveness, "KEPT_SECONDS", 3600)
    one, other = f"n-{fresh_name()}", f"n-{fresh_name()}"
    liveness._records.pop(client, None)
    assert await asyncio.gather(*(liveness.lives(client, node) for node in (one, one, other))) == [False] * 3
    assert sorted(sent) == ["describe_task_queue", "describe_task_queue", "list_workers"]
    monkeypatch.setattr(liveness, "KEPT_SECONDS", 0)
    await liveness.lives(client, one)
    assert sorted(sent[3:]) == ["describe_task_queue", "list_workers"]


async def test_a_live_worker_that_does_not_answer_is_reported_as_busy(
    syncpod: Command, client: Client, temporal_server: DevServer
) -> None:
    """Its process is stopped, so it answers no query; its last heartbeat was a moment ago."""
    name, pod = f"n-{fresh_name()}", fresh_name()
    program = (
        "import asyncio; from tests.agent.stub_workflows import serve_recorder_until_killed; "
        f"asyncio.run(serve_recorder_until_killed({temporal_server.address!r}, {node_task_queue(name)!r}, 'w/{name}'))"
    )
    worker = subprocess.Popen([sys.executable, "-c", program])  # noqa: ASYNC220  # killed below, never waited for long
    handle = await client.start_workflow(
        "PodWorkflow", id=f"pod/default/{pod}", task_queue=node_task_queue(name), run_timeout=timedelta(minutes=5)
    )
    try:

        async def answers() -> bool:
            return bool(await handle.query("received") == [])

        await until_asked(answers)
        os.kill(worker.pid, signal.SIGSTOP)
        shown = await syncpod("get", "pods")
        # Other tests' nodes may be away or busy too, and are named in the same list.
        before, is_busy, _ = shown.err.partition(" is busy (its worker lives, but has not answered in time)")
        away, is_away, _ = shown.err.partition(" is away")
        assert is_busy and name in before.rpartition("node ")[2].split(", ")
        assert not is_away or name not in away
    finally:
        worker.kill()
        worker.wait()
        await handle.terminate()
