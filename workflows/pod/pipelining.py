"""The order of a run's steps: one after the other, with pulls beside them, and perhaps one start ahead of its turn.

A start begins ahead if it is certain that it comes next: the decision is made as if the step before it, the first step,
had succeeded. The start then waits in the worker for the first step (`activities/pipelining.py` has that half of the
picture)::

    a step is decided ──► begun ──► is a start certain to come next? ──no──► the step's end is awaited
                            ▲                    │ yes
                            │                    ▼
                            │       it begins ahead; the end of the first step is awaited
                            │                    │
                            │                    ├── it has ended, or is the pod's last ──► its own end is awaited
                            │                    ▼                                               ▲
                            └── yes ── decided anew: is it the step decided now? ── no ──────────┘

If it is the step decided now, it is a first step itself, and the next start begins ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.actions import StepName
    from syncpod.lifecycle.observed import ObservedContainer, ObservedSandbox
    from syncpod.messages.startup import has_come_to, in_order
    from syncpod.messages.steps import CreateSandbox, StartContainer, StepInput
    from syncpod.pod import container_hash
    from workflows.pod import decide, verdicts
    from workflows.pod.decision import Decision, Step
    from workflows.pod.state import PodState
    from workflows.pod.step_runner import Begun, StepRunner, arm, is_overlong


class StartAhead(NamedTuple):
    """A start that has begun ahead of its turn."""

    step: Step
    """The start as it was decided."""
    begun: Begun
    image: str
    """The image of its container when it began."""

    @property
    def knows_sandbox(self) -> bool:
        """Whether the sandbox existed when the start was decided. If not, the first step creates the sandbox."""
        return isinstance(self.step.input, StartContainer) and self.step.input.sandbox_id != ""

    def is_due(self, decided: Step) -> bool:
        """Say whether this start is the step decided now. When it began, its sandbox's id may have been unknown."""
        given, wanted = self.step.input, decided.input
        if isinstance(given, StartContainer) and not self.knows_sandbox and isinstance(wanted, StartContainer):
            given = given.model_copy(update={"sandbox_id": wanted.sandbox_id})
        return replace(self.step, input=given) == decided


class Pipeline:
    """Takes the decided steps of one run."""

    def __init__(self, steps: StepRunner) -> None:
        """Prepare to take steps by means of `steps`."""
        self.steps, self.state, self.entity = steps, steps.state, steps.entity
        self.ahead: StartAhead | None = None
        self.may_begin_ahead = True
        """Whether a start may begin ahead of its turn while another start runs."""

    async def take(self, step: Step) -> None:
        """Take the decided step: a pull runs concurrently, any other step is awaited."""
        # Read before anything is awaited: a listing that comes in later was not known when the step began.
        step = replace(step, known=self.state.observed.seq)
        if verdicts.expiry(self.state) is not None:
            # The step may outlast the pod's deadline; holds are decided again after it.
            arm(self.state, self.entity.alarm, Decision())
        if step.name == StepName.PULL_IMAGE:
            await self.steps.pull(step)
        else:
            await self._perform(step)

    async def go_on(self, ahead: StartAhead, decision: Decision) -> None:
        """Continue with the start ahead, if it is the step decided now; else only wait for its end.

        If another step was decided, the start has usually not called the runtime yet, and returns NOT_BEGUN. A start
        that has called the runtime was the right step when the first step ended.
        """
        if decision.step is not None and ahead.is_due(decision.step):
            await self.take(decision.step)
        else:
            await self._let_end(ahead)

    @property
    def inputs_ahead(self) -> tuple[StepInput, ...]:
        """The input of the start ahead; empty if there is none."""
        return (self.ahead.step.input,) if self.ahead is not None else ()

    async def _perform(self, step: Step) -> None:
        """Run one step to its end and fold its outcome in; never raises if the step fails.

        If the step is the start ahead, its activity goes on. If it is certain which start comes next, that start begins
        ahead.

        Signals that arrive meanwhile are absorbed and shown: a kill alone may take hours, and a container that stops
        being ready must show at once.
        """
        was_ending = self.steps.is_ending
        begun, next_start = self._begin(step)
        if next_start is not None and not begun.activity.done():
            self.ahead = self._begin_ahead(next_start, step)
        await self.see_through(begun, lambda: self.steps.is_interrupted(begun, was_ending=was_ending), self.ahead)
        if self.ahead is not None and (self.ahead.begun.activity.done() or is_last(self.state, self.ahead.step)):
            # The start ahead has ended, or is the pod's last: no further start can begin ahead, so no decision is
            # needed first.
            await self._let_end(self.ahead)

    def _begin(self, step: Step) -> tuple[Begun, Step | None]:
        """Begin a step, unless it has begun ahead. Return the begun step, and the start certain to come next."""
        next_start: Step | None = None
        makes_sandbox = isinstance(step.input, CreateSandbox)
        may_be_followed = makes_sandbox or (self.may_begin_ahead and isinstance(step.input, StartContainer))
        if may_be_followed and not is_overlong(self.state):
            next_start = certain_start(self.state, step, workflow.now(), pulling=self.steps.pulls)
        if self.ahead is not None:
            begun, self.ahead = self.ahead.begun, None
            self.steps.display.show()
            return begun, next_start
        if next_start is not None and makes_sandbox:
            step = replace(step, input=step.input.model_copy(update={"followed": True}))
        return self.steps.schedule(step), next_start

    def _begin_ahead(self, start: Step, first: Step) -> StartAhead:
        """Begin a start ahead. `first` is the step scheduled last."""
        image = self.state.container(start.container).image
        given = start.input.model_copy(update={"follows": self.state.fence})
        begun = self.steps.schedule(replace(start, known=first.known, input=given))
        # Retrieves the exception of a start that fails before it is awaited: asyncio would log it if the run were
        # evicted.
        begun.activity.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return StartAhead(start, begun, image)

    async def _let_end(self, ahead: StartAhead) -> None:
        """Wait for the end of the start ahead, and fold its outcome in.

        If the start made no container, the init container before it ran for too long. Then no start of the run begins
        ahead any more, since the next init container may take as long.
        """
        if not ahead.begun.activity.done():
            await self.steps.look(ahead.begun.step)
        await self.see_through(ahead.begun, lambda: self._must_not_start(ahead))
        self.ahead = None
        if ahead.knows_sandbox and all(each.name != ahead.step.container for each in self.state.own.containers):
            self.may_begin_ahead = False

    async def see_through(self, begun: Begun, must_stop: Callable[[], bool], ahead: StartAhead | None = None) -> None:
        """Wait for the end of a step, and fold its outcome in. Show the effects of signals that arrive meanwhile.

        The step is cancelled once `must_stop` returns True. The start ahead is cancelled then too, or when it must not
        take place any more.
        """
        activity, others = begun.activity, [ahead.begun] if ahead is not None else []
        while not activity.done() and not must_stop():
            await self.entity.until(lambda: activity.done() or must_stop() or bool(self.entity.inbox))
            if self.entity.inbox and not activity.done():
                await self.steps.look(begun.step, *(each.step for each in others))
                if ahead is not None and self._must_not_start(ahead):
                    self.steps.cancel(ahead.begun)
        await self.steps.finish(begun, must_stop, *others)

    def _must_not_start(self, ahead: StartAhead) -> bool:
        """Say whether the start ahead must be cancelled."""
        return self.steps.must_end() or self.state.container(ahead.step.container).image != ahead.image


# --- the start that is certain to come next ---------------------------------------------------------------------------


def certain_start(state: PodState, first: Step, now: datetime, *, pulling: Collection[str] = ()) -> Step | None:
    """Return the start that certainly comes next if the first step succeeds; None if no start is certain.

    It is decided from the state that the first step leads to: the pod's sandbox exists and no image is missing, or the
    container runs, or the init container has succeeded. A pod with a hold, or one in which anything else was ever made,
    takes one step at a time.
    """
    supposed: PodState | None = None
    if isinstance(first.input, CreateSandbox):
        supposed = _with_sandbox(state, first.input, now)
    elif isinstance(first.input, StartContainer) and not pulling:
        supposed = _with_container(state, first.input, now)
    if supposed is None:
        return None
    decision = decide.next_step(supposed, now, pulling=pulling)
    start = decision.step
    if start is None or decision.holds or not isinstance(start.input, StartContainer) or start.follows_restart_of_all:
        return None
    if isinstance(first.input, StartContainer) and not _is_plain(supposed, start):
        return None
    return start


def is_last(state: PodState, start: Step) -> bool:
    """Say whether no other container comes after this one in the pod's start."""
    return start.container == in_order(state.pod)[-1].name


def _with_sandbox(state: PodState, step: CreateSandbox, now: datetime) -> PodState | None:
    """Return the state with the pod's first sandbox made; None if anything was made or happened before."""
    seen = state.observed
    if step.adopt or seen.sandboxes or seen.containers:
        return None
    if state.exits or state.released or state.over or state.vanished:
        return None
    mode = "NODE" if state.pod.spec.host_network else "POD"
    made = ObservedSandbox(
        attempt=step.attempt,
        state="SANDBOX_READY",
        network_mode=mode,
        incarnation=state.incarnation,
        created_at=now,
        ip=None,
    )
    view = seen.model_copy(update={"sandboxes": (made,)})
    return state.model_copy(update={"observed": view, "waiting": {}})


def _with_container(state: PodState, step: StartContainer, now: datetime) -> PodState | None:
    """Return the state with the container running, or exited with code 0 if it is an init container.

    None if no other container can follow.
    """
    made = {each.name for each in state.own.containers}
    if step.kind == "ephemeral_container" or all(each.name in made for each in in_order(state.pod)[1:]):
        return None
    is_init = step.kind == "init_container"
    image = state.container(step.container).image
    supposed = ObservedContainer(
        id=f"{step.container} of step {state.fence}",
        name=step.container,
        sandbox_id=step.sandbox_id,
        state="exited" if is_init else "running",
        reason="Completed" if is_init else "",
        hash=container_hash(step.container, image),
        restart_count=step.restart,
        image=image,
        created_at=now,
        started_at=now,
        finished_at=now if is_init else None,
        incarnation=state.incarnation,
    )
    this = (step.container, step.restart)
    others = (each for each in state.observed.containers if (each.name, each.restart_count) != this)
    view = state.observed.model_copy(update={"containers": (supposed, *others)}).ordered()
    return state.model_copy(update={"observed": view, "waiting": {}})


def _is_plain(supposed: PodState, start: Step) -> bool:
    """Say whether a start is the container's first one, in a pod where only the pod's own start has happened."""
    step = start.input
    if not isinstance(step, StartContainer) or step.restart or start.store is not None or start.cleared:
        return False
    return has_come_to(supposed.pod, supposed.own, step.container, step.sandbox_id)
