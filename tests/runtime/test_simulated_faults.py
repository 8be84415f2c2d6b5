"""Faults happen as scripted, the same in each run, and as often as scripted even if the server restarts."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.runtime.calls.faults import CallFailed, Faults, NoFaults, ScriptedFaults, draw

WEB = "u1/web"


class Restarted(Exception):
    """Stands for the end of the process."""


def restart() -> None:
    raise Restarted


def scripted(directory: Path) -> ScriptedFaults:
    return ScriptedFaults(directory / "faults", restart)


def scripts(pod: dict[str, Any] | None = None, **containers: dict[str, Any]) -> dict[str, str]:
    written = {**containers, **({} if pod is None else {"pod": pod})}
    return {f"simulate.syncpod.dev/{name}": json.dumps(script) for name, script in written.items()}


async def outcomes(faults: Faults, call: str, script: dict[str, str], times: int, subject: str = WEB) -> list[bool]:
    """For each of this many calls, whether it failed."""
    failed = []
    for _ in range(times):
        try:
            await faults.before(call, script, subject)
        except CallFailed:
            failed.append(True)
        else:
            failed.append(False)
    return failed


async def test_without_scripts_no_fault_occurs() -> None:
    await NoFaults().before("RunPodSandbox", scripts({"hang": ["RunPodSandbox"]}), "u1")


async def test_an_unscripted_call_passes_and_is_not_counted(tmp_path: Path) -> None:
    faults = scripted(tmp_path)
    await faults.before("StartContainer", {}, WEB)
    await faults.before("StartContainer", scripts(web={"hang": ["StopContainer"]}), WEB)
    await faults.before("StopContainer", scripts(other={"hang": ["StopContainer"]}), WEB)
    assert list((tmp_path / "faults").iterdir()) == []


async def test_an_invalid_script_is_refused_at_run_pod_sandbox(tmp_path: Path) -> None:
    with pytest.raises(CallFailed, match=r"\[simulate.syncpod.dev/web\].runTime: must be a duration") as refused:
        await scripted(tmp_path).before("RunPodSandbox", scripts(web={"runTime": "soon"}), "u1")
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_scripted_call_hangs_until_its_client_gives_up(tmp_path: Path) -> None:
    faults = scripted(tmp_path)
    hanging = asyncio.create_task(faults.before("StopContainer", scripts(web={"hang": ["StopContainer"]}), WEB))
    done, _ = await asyncio.wait([hanging], timeout=0.05)
    assert not done
    hanging.cancel()
    await asyncio.wait([hanging])
    assert hanging.cancelled()


async def test_a_scripted_call_continues_after_its_hang_time(tmp_path: Path) -> None:
    await scripted(tmp_path).before("StopContainer", scripts(web={"hang": {"StopContainer": "5ms"}}), WEB)


async def test_only_the_scripted_number_of_calls_hang(tmp_path: Path) -> None:
    script = scripts(web={"hang": {"StopContainer": {"times": 1}}})
    first = asyncio.create_task(scripted(tmp_path).before("StopContainer", script, WEB))
    await asyncio.sleep(0)  # it hangs now: nothing before that waits
    first.cancel()
    await asyncio.wait([first])
    await scripted(tmp_path).before("StopContainer", script, WEB)


async def test_calls_fail_with_the_scripted_status_and_message(tmp_path: Path) -> None:
    how = {"code": "UNAVAILABLE", "message": "the snapshotter is away"}
    with pytest.raises(CallFailed, match="the snapshotter is away") as failed:
        await scripted(tmp_path).before("CreateContainer", scripts(web={"failureRates": {"CreateContainer": how}}), WEB)
    assert failed.value.code is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(CallFailed, match="simulated failure of StartContainer, call 1") as failed:
        await scripted(tmp_path).before("StartContainer", scripts(web={"failureRates": {"StartContainer": 1}}), WEB)
    assert failed.value.code is grpc.StatusCode.UNKNOWN


async def test_only_the_scripted_number_of_calls_fail_even_across_a_server_restart(
    tmp_path: Path,
) -> None:
    script = scripts(web={"failureRates": {"CreateContainer": {"times": 3}}})
    assert await outcomes(scripted(tmp_path), "CreateContainer", script, 2) == [True, True]
    assert await outcomes(scripted(tmp_path), "CreateContainer", script, 3) == [True, False, False]


async def test_a_failure_rate_is_deterministic_per_pod(tmp_path: Path) -> None:
    script = scripts(web={"failureRates": {"CreateContainer": 0.3}})
    runs = []
    for run in ("one", "another"):
        (tmp_path / run).mkdir()
        runs.append(await outcomes(scripted(tmp_path / run), "CreateContainer", script, 50))
    assert runs[0] == runs[1]
    assert runs[0] != await outcomes(scripted(tmp_path), "CreateContainer", script, 50, "u2/web")
    assert 0 < sum(runs[0]) < 50


def test_failure_draws_match_their_rate() -> None:
    drawn = [draw(f"u{pod}/web", "CreateContainer", number) for pod in range(100) for number in range(100)]
    for rate in (0.01, 0.2, 0.9):
        assert sum(each < rate for each in drawn) / len(drawn) == pytest.approx(rate, abs=0.02)


@given(st.text(), st.sampled_from(["CreateContainer", "StopContainer"]), st.integers(0, 10**9))
def test_a_failure_draw_is_between_zero_and_one(subject: str, call: str, number: int) -> None:
    assert 0 <= draw(subject, call, number) < 1


async def test_a_sandbox_script_applies_to_its_calls_and_those_of_its_containers(tmp_path: Path) -> None:
    faults = scripted(tmp_path)
    script = scripts({"failureRates": {"StartContainer": {"times": 1}, "StopPodSandbox": {"times": 1}}})
    assert await outcomes(faults, "StartContainer", script, 2) == [True, False]
    assert await outcomes(faults, "StartContainer", script, 2, "u1/sidecar") == [True, False]
    assert await outcomes(faults, "StopPodSandbox", script, 2, "u1") == [True, False]


async def test_a_call_crashes_the_runtime_as_often_as_scripted(tmp_path: Path) -> None:
    script = scripts(web={"restartRuntime": ["StartContainer"]})
    with pytest.raises(Restarted):
        await scripted(tmp_path).before("StartContainer", script, WEB)
    await scripted(tmp_path).before("StartContainer", script, WEB)


async def test_a_call_that_crashes_the_runtime_never_returns(tmp_path: Path) -> None:
    faults = ScriptedFaults(tmp_path / "faults", lambda: None)
    dying = asyncio.create_task(
        faults.before("StartContainer", scripts(web={"restartRuntime": ["StartContainer"]}), WEB)
    )
    done, _ = await asyncio.wait([dying], timeout=0.05)
    assert not done
    dying.cancel()
    await asyncio.wait([dying])


async def test_fault_counts_are_dropped_a_day_after_the_last_call(tmp_path: Path) -> None:
    script = scripts(web={"failureRates": {"CreateContainer": {"times": 1}}})
    assert await outcomes(scripted(tmp_path), "CreateContainer", script, 2) == [True, False]
    (counts,) = (tmp_path / "faults").iterdir()
    os.utime(counts, (0, time.time() - 25 * 3600))
    assert await outcomes(scripted(tmp_path), "CreateContainer", script, 1) == [True]
