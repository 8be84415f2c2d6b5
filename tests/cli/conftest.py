"""The command as a user runs it, or inside the test's process if it shall use a scripted node."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import pytest_asyncio
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from syncpod.cli.main import run
from syncpod.cli.temporal import nodes
from syncpod.messages.node import NODE_MEMO, NODE_WORKFLOW, NodeSummary, node_workflow_id
from syncpod.temporal.queries import AskAgain
from tests.agent.waiting import until_asked
from tests.fork_server import run_syncpod
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.workflows.scripted import ScriptedNode, scripted_worker


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., Coroutine[Any, Any, Result]]


def program(*arguments: str, environ: dict[str, str] | None = None, stdin: str = "") -> Result:
    """Run the program as a process of its own, forked from one that has imported it."""
    done = run_syncpod(arguments, stdin=stdin, env=_with(environ))
    return Result(done.returncode, done.stdout, done.stderr)


def typed(*arguments: str, environ: dict[str, str] | None = None, stdin: str = "") -> Result:
    """Run the program with the command line that a shell would use."""
    done = subprocess.run(
        [sys.executable, "-m", "syncpod.cli.main", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=_with(environ),
    )
    return Result(done.returncode, done.stdout, done.stderr)


def _with(environ: dict[str, str] | None) -> dict[str, str]:
    return {**os.environ, "TEMPORAL_CONFIG_FILE": os.devnull, **(environ or {})}


@pytest.fixture(scope="module", autouse=True)
def heeded_interrupts() -> Iterator[None]:
    """Let started programs handle SIGINT even if the tests ignore it, as they do in a shell's background.

    What is ignored stays so in a child; what is handled, if by nothing, is reset when the child runs its program.
    """
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda _number, _frame: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def client(temporal_server: DevServer) -> Client:
    return await connect(temporal_server.address, data_converter=pydantic_data_converter, interceptors=[AskAgain()])


@pytest_asyncio.fixture(loop_scope="session")
async def node(client: Client) -> AsyncIterator[ScriptedNode]:
    # Its first task, failed after two seconds on a busy machine, would leave a coroutine that is never awaited.
    scripted = ScriptedNode(unhurried=True)
    async with scripted_worker(client, scripted):
        # Until the server has got its poll, a node without a workflow counts as a name that never was a node.
        await until_asked(lambda: _is_polled(client, scripted.queue))
        yield scripted


async def _is_polled(client: Client, queue: str) -> bool:
    request = DescribeTaskQueueRequest(namespace=client.namespace)
    request.task_queue.name = queue
    return bool((await client.workflow_service.describe_task_queue(request)).pollers)


@asynccontextmanager
async def silent_node(
    client: Client, node: str, *, cordoned: bool, labels: dict[str, str] | None = None
) -> AsyncIterator[None]:
    """Make a node whose workflow does not answer, cordoned or not.

    Commands of this process wait for that answer a second instead of ten: it never comes.
    """
    handle = await client.start_workflow(
        NODE_WORKFLOW,
        id=node_workflow_id(node),
        task_queue=f"nobody/{node}",
        memo={NODE_MEMO: NodeSummary(name=node, unschedulable=cordoned, labels=labels or {})},
    )
    try:
        with patch.object(nodes, "_ANSWER", timedelta(seconds=1)):
            yield
    finally:
        await handle.terminate()


@pytest.fixture
def syncpod(
    temporal_server: DevServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Command:
    """Run commands in this process, with the session's Temporal server and a state directory of the test's own."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_server.address)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("SYNCPOD_MEMORY_DIR", str(tmp_path / "memory"))

    async def command(*arguments: str, stdin: str = "") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        code = await asyncio.to_thread(run, arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return command


@pytest.fixture
def on(node: ScriptedNode) -> tuple[str, str]:
    """The flag that puts pods on the scripted node."""
    return "--node", node.queue.removeprefix("node/")
