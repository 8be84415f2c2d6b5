"""The embedded runtime gives the same answers as containerd 2.3 and 2.4 in all scenes.

Holds: The embedded runtime is a runtime like the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.runtimes import same_answers as scenes
from tests.runtimes.bare import BareCri
from tests.runtimes.runtime import Runtime
from tests.runtimes.same_answers import Stage
from tests.runtimes.selection import ALIKE

pytestmark = pytest.mark.every_runtime("the embedded runtime is compared with containerd", each_containerd=True)

Scene = Callable[[Stage], Awaitable[Any]]

OK, NOT_FOUND, UNKNOWN = ("OK",), ("NOT_FOUND", ""), ("UNKNOWN", "")
RAN = (True, True, True)
"""The container has all three times: of its creation, its start and its end."""
NEVER_RAN = (True, False, True)
RESERVED = ("FAILED_PRECONDITION", 'is reserved for "')
NO_SUCH_PROGRAM = ("UNKNOWN", 'exec: "no-such-program": executable file not found in $PATH')
KILLED = (137, "Error", False, RAN)
START_ERROR = (128, "StartError", True, NEVER_RAN)

ANSWERS: dict[Scene, Any] = {
    scenes.the_same_sandbox_again: RESERVED,
    scenes.the_same_container_again: RESERVED,
    scenes.a_name_is_free_once_its_container_is_removed: True,
    scenes.a_container_of_no_sandbox: NOT_FOUND,
    scenes.a_container_of_an_image_that_is_not_there: NOT_FOUND,
    scenes.a_container_in_a_stopped_sandbox: UNKNOWN,
    scenes.a_start_of_what_runs: ("UNKNOWN", "is in CONTAINER_RUNNING state"),
    scenes.a_start_of_what_has_exited: ("UNKNOWN", "is in CONTAINER_EXITED state"),
    scenes.a_start_of_what_is_not_there: NOT_FOUND,
    scenes.a_start_of_a_program_that_is_not_there: (("UNKNOWN", "no such file or directory"), START_ERROR),
    scenes.a_start_of_a_name_that_is_not_on_the_path: (NO_SUCH_PROGRAM, START_ERROR),
    scenes.a_start_that_its_caller_gives_up: (("UNKNOWN", "already in starting state"), OK, START_ERROR),
    scenes.an_exit_with_0: (0, "Completed", False, RAN),
    scenes.an_exit_with_3: (3, "Error", False, RAN),
    scenes.an_end_by_a_signal: KILLED,
    scenes.a_stop_within_the_grace: (OK, (0, "Completed", False, RAN)),
    scenes.a_stop_that_needs_a_kill: (OK, KILLED),
    scenes.a_second_stop_with_a_shorter_grace: (OK, OK, KILLED),
    scenes.a_stop_that_its_caller_gives_up: ("CONTAINER_RUNNING", OK, KILLED),
    scenes.a_stop_of_what_was_never_started: (OK, "CONTAINER_CREATED", "CONTAINER_RUNNING"),
    scenes.a_stop_of_what_has_ended: (OK, (0, "Completed", False, RAN)),
    scenes.stops_and_removals_of_what_is_not_there: (OK,) * 5,
    scenes.questions_about_what_is_not_there: (*((NOT_FOUND,) * 6), False),
    scenes.a_removal_of_what_runs: (OK, NOT_FOUND),
    scenes.a_stopped_sandbox: (
        "SANDBOX_NOTREADY",
        KILLED,
        "CONTAINER_CREATED",
        OK,
        UNKNOWN,
        ("FAILED_PRECONDITION", "is reserved for"),
    ),
    scenes.a_removal_of_a_sandbox_that_is_ready: (OK, NOT_FOUND, 0),
    scenes.a_command_in_a_container: (7, b"out\n", b"err\n"),
    scenes.a_command_that_takes_too_long: ("DEADLINE_EXCEEDED", ""),
    scenes.a_command_that_is_not_there: NO_SUCH_PROGRAM,
    scenes.a_command_in_what_does_not_run: (
        ("UNKNOWN", "container is in CONTAINER_CREATED state"),
        ("UNKNOWN", "container is in CONTAINER_EXITED state"),
    ),
    scenes.a_log_reopened_of_what_does_not_run: UNKNOWN,
    scenes.lists_by_id_state_and_sandbox: (["main"], ["created"], [], ["created", "main"], [], []),
}


OTHERWISE: dict[tuple[str, Scene], Any] = {("containerd23", scenes.a_container_in_a_stopped_sandbox): OK}
"""The answers of one runtime alone: containerd 2.3 makes the container, but does not start it."""


@pytest.fixture(scope="module", params=["embedded", *ALIKE])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """The embedded runtime, and those with which it is compared."""
    runtime: Runtime = request.getfixturevalue(request.param)
    return runtime


@pytest.fixture
async def stage(runtime: Runtime) -> AsyncIterator[Stage]:
    async with BareCri(runtime.endpoint, cgroup_parent=runtime.cgroup_parent) as bare:
        stage = Stage(bare, runtime)
        await stage.run()
        try:
            yield stage
        finally:
            await stage.clear()


@pytest.mark.parametrize("scene", ANSWERS, ids=lambda scene: scene.__name__)
async def test_the_runtimes_give_the_same_answers(stage: Stage, scene: Scene) -> None:
    assert await scene(stage) == OTHERWISE.get((stage.runtime.name, scene), ANSWERS[scene])
