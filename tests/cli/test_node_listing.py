"""`get nodes`, of nodes whose workflows do not answer."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys

from temporalio.client import Client

from tests.cli.conftest import Command, silent_node
from tests.cli.manifests import fresh_name


async def test_watching_nodes_prints_a_line_for_each_change(client: Client) -> None:
    name = f"n-{fresh_name()}"
    command = (sys.executable, "-m", "syncpod.cli.main", "get", "node", name, "-w")
    environ = {**os.environ, "TEMPORAL_ADDRESS": client.service_client.config.target_host}
    watching: asyncio.subprocess.Process | None = None
    try:
        async with asyncio.timeout(60):
            async with silent_node(client, name, cordoned=True):
                watching = await asyncio.create_subprocess_exec(*command, env=environ, stdout=asyncio.subprocess.PIPE)
                assert watching.stdout is not None
                assert (await watching.stdout.readline()).split()[:2] == [b"NAME", b"STATUS"]
                assert (await watching.stdout.readline()).split()[:2] == [name.encode(), b"NotReady,SchedulingDisabled"]
            async with silent_node(client, name, cordoned=False):
                assert (await watching.stdout.readline()).split()[:2] == [name.encode(), b"NotReady"]
            watching.send_signal(signal.SIGINT)
            assert await watching.wait() == 130
    finally:
        if watching is not None and watching.returncode is None:
            watching.kill()


async def test_the_labels_of_a_node_are_columns(syncpod: Command, client: Client) -> None:
    name = f"n-{fresh_name()}"
    labels = {"kubernetes.io/hostname": name, "disk": "ssd"}
    async with silent_node(client, name, cordoned=False, labels=labels):
        shown = await syncpod("get", "node", name, "-L", "kubernetes.io/hostname", "--show-labels")
        described = await syncpod("describe", "node", name)
        document = json.loads((await syncpod("get", "node", name, "-o", "json")).out)
    head, line = shown.out.splitlines()
    assert (head.split()[-2:], line.split()[-2]) == (["HOSTNAME", "LABELS"], name)
    assert line.split()[-1] == f"disk=ssd,kubernetes.io/hostname={name}"
    assert re.search(rf"^Labels: +disk=ssd\n +kubernetes.io/hostname={name}$", described.out, re.MULTILINE)
    assert document["metadata"]["labels"] == labels
