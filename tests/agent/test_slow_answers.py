"""An exec probe that the runtime does not answer fails in the end, even if the worker restarts meanwhile.

Holds: An exec probe that the runtime does not answer fails.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from syncpod.agent.probing import run_probe, slow_answers
from syncpod.agent.probing.prober import Prober
from syncpod.agent.probing.results import read_results, read_slow, write_results
from syncpod.agent.probing.slow_answers import NOT_SLOW, Slow, SlowAnswers
from syncpod.cri.errors import CommandTimedOut, Unavailable
from syncpod.cri.port import CriRuntime, ExecResult
from syncpod.handlers.answer import NoAnswer, ProbeAnswer, Target
from syncpod.pod import ExecAction, Probe
from tests.agent.test_prober import UID, Node, a_node, listing, passing

ACTION = ExecAction(command=("sh", "-c", "sleep 9 &"))
PROBE = {"exec": {"command": list(ACTION.command)}, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 3}
TIMED_OUT = 'command timed out: "sh -c sleep 9 &" timed out after 1s'


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the limits: answers are overdue at once and fail after a second; their waiting time is often recorded."""
    monkeypatch.setattr(slow_answers, "OVERDUE_SECONDS", -0.9)
    monkeypatch.setattr(slow_answers, "KEEP_SECONDS", 0.02)
    monkeypatch.setattr(slow_answers, "RUNTIMES_SECONDS", 0.0)


def silent() -> Any:
    """A runtime that never answers."""
    cri = create_autospec(CriRuntime, instance=True)

    async def exec_sync(*_: Any, **__: Any) -> ExecResult:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    cri.exec_sync.side_effect = exec_sync
    return cri


def prober(node: Node, cri: Any) -> Prober:
    return Prober(cri, node.context, node.send, host_ip=lambda: "127.0.0.1")


@pytest.mark.parametrize("type_", ["startup", "liveness", "readiness"])
async def test_a_probe_that_the_runtime_does_not_answer_fails(tmp_path: Path, patience: None, type_: str) -> None:
    """Row 88: it is a timeout, whichever deadline passes (cri-client, ExecSync)."""
    node = a_node(tmp_path, **{f"{type_}Probe": {**PROBE, "failureThreshold": 1}})
    asking = prober(node, silent())
    asking.observe(listing("c1"))
    await passing(lambda: ("c1", type_, "failure") in node.results())
    assert node.told[0].message == TIMED_OUT
    await asking.close()


async def test_a_timeout_of_the_client_is_not_repeated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took two minutes: three attempts would take six, and then report that the state is unknown."""
    cri = create_autospec(CriRuntime, instance=True)
    cri.exec_sync.side_effect = CommandTimedOut("exec_sync", "DEADLINE_EXCEEDED", "Deadline Exceeded")
    target = Target("u1", "c1", "", {})
    answer = await run_probe.run_probe(Probe.model_validate(PROBE), target, cri)
    assert (answer.result, answer.text, cri.exec_sync.await_count) == ("failure", TIMED_OUT, 1)


async def test_workers_that_live_shorter_than_a_probe_takes_end_it_together(tmp_path: Path, patience: None) -> None:
    """No single worker waits for the runtime's whole time limit, and the probe needs three failures."""
    node = a_node(tmp_path, livenessProbe=PROBE)
    cri = silent()
    failed, kept, lives = ("c1", "liveness", "failure"), NOT_SLOW, 0

    def something_new() -> bool:
        slow = read_slow(node.context, UID).get(("c1", "liveness"), NOT_SLOW)
        return slow != kept and slow.failures < 3  # the third one is signalled

    while failed not in node.results() and lives < 100:
        lives += 1
        kept = read_slow(node.context, UID).get(("c1", "liveness"), NOT_SLOW)
        asking = prober(node, cri)
        asking.observe(listing("c1"))
        await passing(lambda: something_new() or failed in node.results())
        await asking.close()
    assert 3 < lives < 100


async def test_an_overdue_probe_can_be_read(tmp_path: Path, patience: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`describe` and `events` show it long before it fails."""
    monkeypatch.setattr(slow_answers, "RUNTIMES_SECONDS", 120.0)
    node = a_node(tmp_path, livenessProbe=PROBE)
    asking = prober(node, silent())
    asking.observe(listing("c1"))
    await passing(lambda: bool(asking.unreported(UID)))
    [overdue] = asking.unreported(UID)
    assert overdue.message.startswith("Liveness probe is overdue: no answer from the runtime since 20")
    assert overdue.message.endswith("Z; without one it fails after 2m1s")
    await asking.close()


async def test_an_answer_ends_what_was_waited_for(patience: None) -> None:
    kept: list[Slow] = []
    answers = SlowAnswers(Probe.model_validate(PROBE), Slow(2, 50.0), kept.append)

    async def unwell() -> ProbeAnswer:
        raise NoAnswer("the runtime is away")

    async def slowly(result: Any) -> ProbeAnswer:
        await passing(lambda: answers.overdue_since is not None)
        return ProbeAnswer(result)

    with pytest.raises(NoAnswer):
        await answers.answer(ACTION, unwell)
    assert kept == [Slow(2)], "what was waited for ended with the runtime; the failures before it still count"
    assert (await answers.answer(ACTION, lambda: slowly("failure"))).result == "failure"
    assert kept[-1] == Slow(3)
    assert (await answers.answer(ACTION, lambda: slowly("success"))).result == "success"
    assert (kept[-1], answers.overdue_since) == (NOT_SLOW, None)


async def test_a_runtime_that_is_away_gives_no_result(tmp_path: Path) -> None:
    """Row 88: it is unknown whether the command would have failed."""
    cri = create_autospec(CriRuntime, instance=True)
    cri.exec_sync.side_effect = Unavailable("exec_sync", "UNAVAILABLE", "no connection")
    with pytest.raises(NoAnswer):
        await run_probe.run_probe(Probe.model_validate(PROBE), Target("u1", "c1", "", {}), cri)


def test_what_is_kept_is_read_again_and_nonsense_is_nothing(tmp_path: Path) -> None:
    context = a_node(tmp_path).context
    slow = {("c1", "liveness"): Slow(2, 33.5), ("c2", "startup"): NOT_SLOW}
    write_results(context, UID, {("c1", "readiness"): "success"}, slow)  # type: ignore[arg-type]
    assert read_slow(context, UID) == {("c1", "liveness"): Slow(2, 33.5)}
    assert read_results(context, UID) == {("c1", "readiness"): "success"}
    [path] = tmp_path.rglob("probes.json")
    for nonsense in (
        "",
        "[]",
        '{"c1":{"slow":{"liveness":7}}}',
        '{"c1":{"slow":7}}',
        '{"c1":{"slow":{"liveness":{}}}}',
    ):
        path.write_text(nonsense)
        assert read_slow(context, UID) == {}
