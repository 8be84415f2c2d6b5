"""The log of a worker whose task queue has tasks of foreign workflows: a node's worker, and a fleet's."""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from syncpod.kernel.process_log import PrintableFormatter
from syncpod.temporal.foreign_tasks import KINDS, REPEAT_SECONDS, ForeignTasks
from syncpod.temporal.plugin import syncpod_plugin
from syncpod.temporal.sealed_questions import RefusesUnsealed
from syncpod.temporal.signed_steps import SigningWorker
from tests.agent.waiting import until_asked
from tests.e2e.test_fleet import fleet_of_one
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect

WORKFLOW = (
    "a workflow of type {} is on this node's task queue, and nothing here can run it: terminate it, or start it on "
    "another task queue"
)
STEP = (
    "workflow {} asks for the step {} on this node's task queue, and nothing here can run it: terminate that workflow"
)
UNSIGNED = "a task of others is on this node's task queue: step known is refused, since its input is not accepted: {}"


@workflow.defn
class Known:
    """A workflow of this worker."""

    @workflow.run
    async def run(self) -> None:
        pass


@workflow.defn(name="Asking", sandboxed=False)
class Asking:
    """A stranger's workflow, which requests steps on another queue."""

    @workflow.run
    async def run(self, queue: str, steps: list[str], payloads: list[int]) -> None:
        for step in steps:
            for number in payloads:
                try:
                    await workflow.execute_activity(
                        step,
                        args=[{}] * number,
                        task_queue=queue,
                        start_to_close_timeout=timedelta(seconds=60),
                        retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=10), maximum_attempts=3),
                    )
                except Exception as why:  # noqa: BLE001  # all of them fail
                    workflow.logger.debug("%s", why)


@workflow.defn(name="Told", sandboxed=False)
class Told:
    """A workflow that accepts any signal, as ours do."""

    def __init__(self) -> None:
        """Prepare to wait for the end."""
        self.is_over = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self.is_over)

    @workflow.signal
    def tell(self, *args: Any) -> None:
        """Accept any signal."""

    @workflow.signal
    def end(self, *args: Any) -> None:
        """End."""
        self.is_over = True


@activity.defn
async def known(_asked: Any) -> None:
    """A step of this worker."""


@contextmanager
def written(foreign: ForeignTasks, *names: str) -> Iterator[list[str]]:
    """Yield the lines that are written for the records of these loggers."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]
    handler.addFilter(foreign)
    for name in names:
        logging.getLogger(name).addHandler(handler)
    try:
        yield lines
    finally:
        for name in names:
            logging.getLogger(name).removeHandler(handler)


async def asked(client: Client, queue: str, steps: list[str], payloads: list[int]) -> str:
    """Let a stranger's workflow request steps; return its id once all have failed."""
    own = f"stranger-{uuid.uuid4()}"
    async with Worker(client, task_queue=own, workflows=[Asking], workflow_runner=UnsandboxedWorkflowRunner()):
        await client.execute_workflow(Asking.run, args=[queue, steps, payloads], id=own, task_queue=own)
    return own


async def test_tasks_that_fail_again_and_again_are_one_line(temporal_server: DevServer) -> None:
    client = await connect(temporal_server.address)
    queue = f"q-{uuid.uuid4()}"

    async def has_failed_twice() -> bool:
        pending = (await handle.describe()).raw_description.pending_workflow_task
        return pending.attempt >= 3

    with written(ForeignTasks("this node's"), "temporalio.worker._workflow") as lines:
        handle = await client.start_workflow("NoSuchThing", id=queue, task_queue=queue)
        runner = UnsandboxedWorkflowRunner()
        async with Worker(client, task_queue=queue, workflows=[Known], workflow_runner=runner):
            await until_asked(has_failed_twice)
        await handle.terminate()
    assert lines == [f"WARNING {WORKFLOW.format(repr('NoSuchThing'))}"]


async def test_signals_that_nobody_can_decode_are_a_line_for_each_name(temporal_server: DevServer) -> None:
    """At a plain worker, each was 27 lines with two tracebacks."""
    client = await connect(temporal_server.address)
    queue = f"q-{uuid.uuid4()}"
    junk = [RawValue(Payload(metadata={"encoding": each}, data=b"x")) for each in (b"binary/encrypted", b"none")]
    plugin = syncpod_plugin(workflows=[Told], activities=[], runner=UnsandboxedWorkflowRunner())
    with written(ForeignTasks("this node's"), "temporalio.worker._workflow_instance") as lines:
        async with Worker(client, task_queue=queue, plugins=[plugin]):
            handle = await client.start_workflow("Told", id=queue, task_queue=queue)
            for number in (1, 2, 50):
                for each in junk:
                    await handle.signal("tell", args=[each] * number)
            await handle.signal("end")
            await handle.result()
    assert lines == [f"WARNING a signal 'tell' to workflow {queue!r} cannot be decoded, and is left out"]


async def test_steps_that_others_ask_for_are_a_line_for_each_kind(temporal_server: DevServer) -> None:
    client = await connect(temporal_server.address)
    queue = f"q-{uuid.uuid4()}"
    with written(ForeignTasks("this node's"), "temporalio.activity") as lines:
        async with Worker(client, task_queue=queue, activities=[known], interceptors=[SigningWorker()]):
            own = await asked(client, queue, ["nosuch", "known"], [0, 1, 50])
    copied = UNSIGNED.format("it is a copy from another run")
    assert lines == [
        f"WARNING {STEP.format(repr(own), repr('nosuch'))}",
        f"WARNING {UNSIGNED.format('it has no payload that could be signed')}",
        f"WARNING {copied}",
    ]


async def test_a_question_of_a_fleet_has_one_payload(
    temporal_server: DevServer, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect(temporal_server.address)
    queue = f"q-{uuid.uuid4()}"
    async with Worker(client, task_queue=queue, activities=[known], interceptors=[RefusesUnsealed()]):
        await asked(client, queue, ["known"], [0, 1, 50])
    said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert said == [
        f"the fleet's request known is refused: it has {number} payloads, and not one" for number in (0, 50)
    ]


def test_each_kind_has_a_line_an_hour_and_many_share_one() -> None:
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
        quotes.warning("Failing workflow task {'failure': 'Encoded failure'}")

    with written(ForeignTasks("this node's", lambda: now[0]), fails.name, quotes.name) as lines:
        for now[0] in (0.0, 10.0, REPEAT_SECONDS - 1, REPEAT_SECONDS):
            fail("A\nline")
            fails.warning("something else")
        mine = [line for line in lines if "something else" not in line]
        first = f"WARNING {WORKFLOW.format(repr(chr(65) + chr(10) + 'line'))}"
        assert mine == [first, f"{first} (and 2 times since the last such line)"]
        assert len(lines) - len(mine) == 4
        lines.clear()
        for number in range(2 * KINDS):
            fail(f"T{number}")
    assert len(lines) == KINDS
    assert lines[-1] == f"WARNING more kinds of tasks of others than {KINDS} are on this node's task queue"


def test_a_defect_of_the_workers_own_is_logged_as_it_is() -> None:
    activities = logging.getLogger("temporalio.activity.test")
    with written(ForeignTasks("this node's"), activities.name) as lines:
        for error in (ApplicationError("a defect", type="InternalError"), ValueError("another")):
            try:
                raise error
            except (ApplicationError, ValueError):
                activities.warning("Completing activity as failed", exc_info=True)
    assert [line.splitlines()[0] for line in lines] == ["WARNING Completing activity as failed"] * 2
    assert "Traceback" in lines[0] and "a defect" in lines[0]


def test_a_terminal_obeys_nothing_in_a_log() -> None:
    try:
        raise ValueError("a\x1b[2Jb\x9b31m")
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, "", 0, "x\r%s\x07\ty", ("\x1b]0;title\x07",), sys.exc_info())
    text = PrintableFormatter("%(message)s").format(record)
    assert text.splitlines()[0] == "x\\r\\x1b]0;title\\x07\\x07\ty"
    assert text.endswith("ValueError: a\\x1b[2Jb\\x9b31m")


async def test_a_fleets_log_has_one_line_of_such_a_workflow(tmp_path: Path) -> None:
    async with fleet_of_one(tmp_path) as fleet:
        client = await Client.connect(fleet.server.address)
        handles = [await client.start_workflow("No\x1b[31m", id=f"s-{uuid.uuid4()}", task_queue="fleet") for _ in "123"]

        async def have_failed() -> bool:
            told = [(await each.describe()).raw_description.pending_workflow_task.attempt for each in handles]
            return min(told) >= 2

        await until_asked(have_failed)
        for handle in handles:
            await handle.terminate()
        lines = [line for line in fleet.log.read_text().splitlines() if "WARN" in line]
    assert len(lines) == 1, lines
    assert "a workflow of type 'No\\x1b[31m' is on the fleet's task queue" in lines[0]


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Let warnings of the SDK's loggers through."""
    logger = logging.getLogger("temporalio")
    before = logger.level
    logger.setLevel(logging.WARNING)
    yield
    logger.setLevel(before)
