"""A fleet on a dev server is lost with its state directory, and restored from a backup as in its documentation page."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from temporalio.client import Client

from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.messages.identity import pod_workflow_id
from syncpod.settings.membership import keep_membership
from syncpod.temporal.plugin import DATA_CONVERTER
from tests.e2e.test_fleet import FleetOfOne, Node, fleets_client, node, pod, serving, words
from tests.nightly import NIGHTLY
from tests.runtimes.temporal import DevServer

__all__ = ["node"]


async def opened(server: DevServer, state_dir: Path, log: Path, port: int = 0) -> FleetOfOne:
    """A fleet with a running worker, whose log is `log`, and a gate."""
    environ = {"TEMPORAL_ADDRESS": server.address, "SYNCPOD_STATE_DIR": str(state_dir)}
    authority = await asyncio.to_thread(open_fleet, fleet_directory(state_dir), now())
    fleet = FleetOfOne(authority, server, await fleets_client(server, state_dir), environ, log, port=port)
    await fleet.open()
    return fleet


def copied(database: Path, backup: Path) -> None:
    """Copy a database while its server writes to it, as `sqlite3 DATABASE ".backup FILE"` does."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.skipif(not NIGHTLY, reason="a worker and a server are started twice: `make nightly`")
async def test_a_fleet_on_a_dev_server_is_put_back_from_a_backup(node: Node, tmp_path: Path) -> None:
    home, backup, log = tmp_path / "fleet", tmp_path / "backup", tmp_path / "fleet.log"
    backup.mkdir()
    before, after, last = (f"{each}-{node.name}" for each in ("before", "after", "last"))
    server = await asyncio.to_thread(DevServer.launch, synced=False)
    try:
        environ = {**os.environ, "TEMPORAL_ADDRESS": server.address, "SYNCPOD_STATE_DIR": str(home)}
        environ["TEMPORAL_CONFIG_FILE"] = os.devnull
        with serving(environ, log):
            fleet = await opened(server, home, log)
            keep_membership(node.state_dir, fleet.invitation(node.name))
            await fleet.expect(node.name, grace=50)
            await fleet.until(node.name, lambda view: view.presence == "Ready")
            await fleet.say("apply", "-f", "-", stdin=pod(before, node.name))
            await fleet.until(node.name, lambda view: words(view) == {before: "Running"})
            await asyncio.to_thread(copied, server.db, backup / "temporal.db")
            no_sockets = shutil.ignore_patterns("*.sock")
            await asyncio.to_thread(shutil.copytree, home / "fleet", backup / "fleet", ignore=no_sockets)
            await fleet.say("apply", "-f", "-", stdin=pod(after, node.name))
            await fleet.until(node.name, lambda view: words(view) == dict.fromkeys((before, after), "Running"))
            await fleet.cut()

        server.kill()
        for lost in server.directory.glob("temporal.db*"):
            lost.unlink()
        shutil.rmtree(home)
        home.mkdir(mode=0o700)
        shutil.copytree(backup / "fleet", home / "fleet")
        shutil.copy(backup / "temporal.db", server.db)
        await asyncio.to_thread(server.start)

        with serving(environ, log):
            fleet = await opened(server, home, log, fleet.port)
            await fleet.until(node.name, lambda view: words(view) == dict.fromkeys((before, after), "Running"))
            await fleet.say("apply", "-f", "-", stdin=pod(last, node.name))
            everything = (before, after, last)
            await fleet.until(node.name, lambda view: words(view) == dict.fromkeys(everything, "Running"))
            local = await Client.connect(node.server.address, data_converter=DATA_CONVERTER)
            for each in everything:
                found = await local.get_workflow_handle(pod_workflow_id("default", each)).query("pod")
                (status,) = found["status"]["containerStatuses"]
                assert (status["restartCount"], "running" in status["state"]) == (0, True)
            await fleet.cut()
    finally:
        await asyncio.to_thread(server.close)
