"""Fault points: without the variable they do nothing; with it they record every boundary, and kill at one of them.

Holds: A worker may die between any two calls.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from protos.cri.v1.api_pb2 import PodSandboxMetadata
from qa.fault_points import VARIABLE, FaultPointClient, FaultPoints, cri_client, read_boundaries
from syncpod.cri import SandboxConfig
from syncpod.cri.client import CriClient
from syncpod.cri.errors import NotFound, Unavailable
from syncpod.settings.values import SettingsInvalid
from tests.worker.node_process import ROOT


async def test_without_the_variable_the_client_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    for environ in ({}, {VARIABLE: ""}):
        async with cri_client("unix:///nowhere", environ) as cri:
            assert type(cri) is CriClient
    assert capsys.readouterr().err == ""


async def test_with_the_variable_the_client_is_wrapped_and_the_worker_logs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with cri_client("unix:///nowhere", {VARIABLE: f"record={tmp_path}/b,pod=web,kill=7"}) as cri:
        assert type(cri) is FaultPointClient
    assert capsys.readouterr().err == (
        f"syncpod worker: WARNING: {VARIABLE} is set, which is for tests: calls for pod web are written to "
        f"{tmp_path}/b, and this worker kills itself at number 7\n"
    )


def test_valid_fault_points_are_parsed(tmp_path: Path) -> None:
    assert FaultPoints.parse(f"record={tmp_path}") == FaultPoints(tmp_path)
    assert FaultPoints.parse(f"record={tmp_path},kill=7") == FaultPoints(tmp_path, kill=7)


@pytest.mark.parametrize("wrong", ["1", "kill=7", "record=", "record=x,kill=0", "record=x,kill=-1", "record=x,hang=1"])
def test_an_invalid_fault_point_is_refused_in_one_sentence(wrong: str) -> None:
    with pytest.raises(SettingsInvalid, match=rf"^{VARIABLE}: expected record=FILE"):
        FaultPoints.parse(wrong)


async def test_every_mutating_call_has_a_fault_point_before_and_after_it(cri_endpoint: str, tmp_path: Path) -> None:
    record = tmp_path / "boundaries"
    async with FaultPointClient(cri_endpoint, FaultPoints(record)) as cri:
        await cri.version()
        with pytest.raises(NotFound):
            await cri.start_container("none-of-that-id")
        await cri.list_containers()
        with pytest.raises(NotFound):
            await cri.start_container("none-of-that-id")
    assert [(each.ordinal, each.when, each.call) for each in read_boundaries(record)] == [
        (1, "before", "StartContainer"),
        (2, "after", "StartContainer"),
        (3, "before", "StartContainer"),
        (4, "after", "StartContainer"),
    ]


@pytest.mark.parametrize(("named", "pods"), [("", ["web", "web"]), ("web", ["web", "web"]), ("api", [])])
async def test_fault_points_are_limited_to_the_named_pod(named: str, pods: list[str], tmp_path: Path) -> None:
    record = tmp_path / "boundaries"
    config = SandboxConfig(metadata=PodSandboxMetadata(name="web"))
    async with FaultPointClient("unix:///nowhere", FaultPoints(record, pod=named)) as cri:
        with pytest.raises(Unavailable):
            await cri.run_pod_sandbox(config, runtime_handler="")
    assert [each.pod for each in read_boundaries(record)] == pods


_CALLS = """
import asyncio, pathlib, sys
from qa.fault_points import cri_client
async def calls():
    async with cri_client("unix:///nowhere", {"SYNCPOD_FAULT_POINTS": f"record={sys.argv[1]},kill=3"}) as cri:
        for _ in range(2):
            try:
                await cri.remove_image("some/image")
            except Exception:
                pass
asyncio.run(calls())
"""


def test_the_worker_is_killed_at_the_chosen_fault_point_which_is_recorded_last(tmp_path: Path) -> None:
    record = tmp_path / "boundaries"
    done = subprocess.run([sys.executable, "-c", _CALLS, str(record)], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [(each.when, each.call) for each in read_boundaries(record)] == [
        ("before", "RemoveImage"),
        ("after", "RemoveImage"),
        ("before", "RemoveImage"),
    ]
