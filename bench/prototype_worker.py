"""The prototype's worker: ``python -m bench.prototype_worker RUNTIME TEMPORAL``, the addresses of both.

It prints one line when it serves. Then it reads commands from its input, one a line: ``start NAME PLAN``, with the plan
as JSON; ``exited NAME``, when the pod's first container has exited; and ``stop NAME``. It ends at the end of its input.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc.aio
from temporalio.client import Client
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import GrpcCompression
from temporalio.worker import PollerBehaviorSimpleMaximum, UnsandboxedWorkflowRunner, Worker

from bench.prototype import TASK_QUEUE, Calls, Plan, PrototypePod
from protos.cri.v1 import api_pb2_grpc as stubs
from syncpod.kernel.process_priority import prefer_this_process

WORKFLOW_TASKS_AT_ONCE: Final = 24
EAGER_STARTS_AT_ONCE: Final = 16
ACTIVITIES_AT_ONCE: Final = 1000
_LONGEST_LINE: Final = 1 << 20


async def serve(endpoint: str, address: str) -> None:
    """Serve until the input ends, with the product's settings of worker and client."""
    client = await connected(address)
    async with grpc.aio.insecure_channel(endpoint) as channel:
        calls = Calls(stubs.RuntimeServiceStub(channel))
        async with worker_of(client, [PrototypePod], calls.activities):
            print("ready", flush=True)
            await _obey(client)


async def connected(address: str) -> Client:
    """Return a client of the server at `address`, with the product's settings."""
    logs = LoggingConfig(filter=TelemetryFilter(core_level="WARN", other_level="ERROR"))
    runtime = Runtime(telemetry=TelemetryConfig(logging=logs), worker_heartbeat_interval=None)
    return await Client.connect(address, runtime=runtime, grpc_compression=GrpcCompression.NONE)


def worker_of(client: Client, workflows: Sequence[type], activities: Sequence[Callable[..., Any]]) -> Worker:
    """Return a worker with the product's settings, which serves while it is entered."""
    return Worker(
        client,
        task_queue=TASK_QUEUE,
        build_id="prototype",
        workflows=workflows,
        activities=activities,
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_workflow_tasks=WORKFLOW_TASKS_AT_ONCE + EAGER_STARTS_AT_ONCE,
        max_concurrent_activities=ACTIVITIES_AT_ONCE,
        workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(WORKFLOW_TASKS_AT_ONCE),
        activity_task_poller_behavior=PollerBehaviorSimpleMaximum(5),
        nonsticky_to_sticky_poll_ratio=4 / WORKFLOW_TASKS_AT_ONCE,
    )


async def _obey(client: Client) -> None:
    """Execute the input's commands, each as soon as it is read, until the input ends. Raises the first error."""
    lines = asyncio.StreamReader(limit=_LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    doing: set[asyncio.Task[None]] = set()
    while line := await lines.readline():
        doing.add(asyncio.create_task(_do(client, line.decode())))
        for each in [each for each in doing if each.done()]:
            each.result()
            doing.remove(each)
    await asyncio.gather(*doing)


async def _do(client: Client, line: str) -> None:
    what, name, *more = line.split(maxsplit=2)
    if what == "start":
        plan = Plan(**json.loads(more[0]))
        await client.start_workflow(
            PrototypePod.run, plan, id=f"pod/{name}", task_queue=TASK_QUEUE, request_eager_start=True
        )
    else:
        await client.get_workflow_handle(f"pod/{name}").signal(what)


def main() -> int:
    """Run the worker as a process; return its exit code."""
    endpoint, address = sys.argv[1:]
    prefer_this_process()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    asyncio.run(serve(endpoint, address))
    return 0


if __name__ == "__main__":
    sys.exit(main())
