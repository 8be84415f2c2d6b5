"""The private Temporal dev server is a real one, and its database survives it."""

import asyncio
import sys
import urllib.request
from pathlib import Path

from tests.runtimes.processes import processes
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect


async def test_a_workflow_outlives_a_kill_of_the_server(temporal_server: DevServer) -> None:
    client = await connect(temporal_server.address, namespace=temporal_server.namespace)
    await client.start_workflow("Nothing", id="kept", task_queue="nobody")
    before = temporal_server.pid
    temporal_server.restart()
    assert temporal_server.pid != before
    description = await client.get_workflow_handle("kept").describe()
    assert description.workflow_type == "Nothing"
    await client.get_workflow_handle("kept").terminate()


def test_its_web_ui_answers(temporal_server: DevServer) -> None:
    with urllib.request.urlopen(temporal_server.ui) as page:
        assert page.status == 200


async def test_a_server_left_by_a_killed_run_is_ended_by_the_next() -> None:
    program = (
        "from tests.runtimes.temporal import DevServer\n"
        "server = DevServer.launch()\n"
        "print(server.pid, server.directory, flush=True)\n"
        "input()"
    )
    pipe = asyncio.subprocess.PIPE
    run = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdin=pipe, stdout=pipe)
    assert run.stdout is not None
    pid, directory = (await run.stdout.readline()).decode().split()
    run.kill()
    await run.wait()
    assert int(pid) in {process.pid for process in processes()}
    await asyncio.to_thread(lambda: DevServer.launch().close())
    assert int(pid) not in {process.pid for process in processes()}
    assert not await asyncio.to_thread(Path(directory).exists)
