"""Shutdown of a node's machine, announced on its bus: the pods end, and a static pod starts again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.agent.machine_bus import DAEMON, Bus, connected
from tests.agent.waiting import until
from tests.cli.conftest import program
from tests.cli.machine import EMBEDDED, machine
from tests.cli.test_up_kubernetes import SLEEPS

PATIENCE = 300
"""The number of checks of a pod."""
pytestmark = pytest.mark.skipif(DAEMON is None, reason="this machine has no dbus-daemon")


def manifest(path: Path, name: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": SLEEPS}))
    return path


async def test_a_shutdown_waits_for_pods_and_one_that_is_called_off_brings_static_pods_back(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    manifest(tmp_path / "manifests" / "static.yaml", "static")
    lone = manifest(tmp_path / "lone.yaml", "lone")
    bus = Bus(tmp_path)
    await bus.start()
    with machine(EMBEDDED, request, tmp_path / "machine") as environ:
        environ |= {
            "SYNCPOD_NODE": "n1",
            "SYNCPOD_MANIFEST_DIR": str(tmp_path / "manifests"),
            "SYNCPOD_SHUTDOWN_GRACE_BY_PRIORITY": "0=60s",
            "DBUS_SYSTEM_BUS_ADDRESS": bus.address,
        }

        async def syncpod(*arguments: str) -> str:
            result = await asyncio.to_thread(program, *arguments, environ=environ)
            assert result.code == 0, result
            return result.out

        async def status(name: str) -> dict[str, Any]:
            pods = json.loads(await syncpod("get", "pods", "-o", "json"))["items"]  # it may be gone for a moment
            return next((each["status"] for each in pods if each["metadata"]["name"] == name), {})

        async def until_phase(name: str, phase: str) -> None:
            for _ in range(PATIENCE):
                if (await status(name)).get("phase") == phase:
                    return
                await asyncio.sleep(0.1)
            raise AssertionError(f"{name} is not {phase}: {await status(name)}")

        async with connected(bus.address) as logind:
            await syncpod("up", "--embedded", "-f", str(lone))
            await until_phase("static-n1", "Running")
            assert logind.is_held
            await logind.tell(shutdown=True)
            await until(lambda: not logind.is_held)
            ended = await status("lone")
            assert (ended["phase"], ended["reason"]) == ("Failed", "Terminated")
            assert {each["type"] for each in ended["conditions"]} >= {"DisruptionTarget"}
            await until_phase("static-n1", "Failed")
            assert (await status("static-n1"))["reason"] == "NodeShutdown"
            await logind.tell(shutdown=False)
            await until_phase("static-n1", "Running")
            assert logind.is_held and (await status("lone"))["phase"] == "Failed"
    await bus.stop()
