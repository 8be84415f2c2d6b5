"""What a worker logs of workflows of other programs on its node's task queue."""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from temporalio import workflow
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from syncpod.agent.unknown_types import REPEAT_SECONDS, TYPES, UnknownTypes
from tests.agent.waiting import until_asked
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect

SENTENCE = (
    "a workflow of type {} is on this node's task queue, and nothing here can run it: terminate it, or start it on "
    "another task queue"
)


@workflow.defn
class Known:
    """A workflow of this worker."""

    @workflow.run
    async def run(self) -> None:
        pass


@contextmanager
def written(unknown: UnknownTypes, *names: str) -> Iterator[list[str]]:
    """Yield what is written of the records of these loggers."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]
    handler.addFilter(unknown)
    for name in names:
        logging.getLogger(name).addHandler(handler)
    try:
        yield lines
    finally:
        for name in names:
            logging.getLogger(name).removeHandler(handler)


async def test_tasks_that_fail_again_and_again_are_one_line(temporal_server: DevServer) -> None:
    client = await connect(temporal_server.address)
    queue = f"q-{uuid.uuid4()}"

    async def has_failed_twice() -> bool:
        pending = (await handle.describe()).raw_description.pending_workflow_task
        return pending.attempt >= 3

    with written(UnknownTypes(), "temporalio.worker._workflow") as lines:
        handle = await client.start_workflow("NoSuchThing", id=queue, task_queue=queue)
        runner = UnsandboxedWorkflowRunner()
        async with Worker(client, task_queue=queue, workflows=[Known], workflow_runner=runner):
            await until_asked(has_failed_twice)
        await handle.terminate()
    assert lines == [f"WARNING {SENTENCE.format(repr('NoSuchThing'))}"]


def test_each_type_has_a_line_an_hour_and_many_types_share_one() -> None:
    now = [0.0]
    fails = logging.getLogger("temporalio.worker.test")
    quotes = logging.getLogger("temporalio.core.test")

    def fail(name: str) -> None:
        said = (
            f"NotFoundError: Workflow class {name} is not registered on this worker, available workflows: PodWorkflow"
        )
        try:
            raise RuntimeError(said)
        except RuntimeError:
            fails.exception("Failed handling activation on workflow with run ID %s", "r")
        quotes.warning("Failing workflow task {'failure': '%s'}", said)

    with written(UnknownTypes(lambda: now[0]), fails.name, quotes.name) as lines:
        for now[0] in (0.0, 10.0, REPEAT_SECONDS - 1, REPEAT_SECONDS):
            fail("A\nline")
            fails.warning("something else")
        mine = [line for line in lines if "something else" not in line]
        assert mine == [f"WARNING {SENTENCE.format(repr(chr(65) + chr(10) + 'line'))}"] * 2
        assert len(lines) - len(mine) == 4
        lines.clear()
        for number in range(2 * TYPES):
            fail(f"T{number}")
    assert len(lines) == TYPES
    assert lines[-1] == f"WARNING {SENTENCE.format('(many others)')}"


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Let warnings of the SDK's loggers through."""
    logger = logging.getLogger("temporalio")
    before = logger.level
    logger.setLevel(logging.WARNING)
    yield
    logger.setLevel(before)
