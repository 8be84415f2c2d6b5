"""Ending containers: SIGTERM and a grace for each, in order, until the runtime lists none of them as alive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from activities.containers.removal import remove_unstarted
from activities.step_attempt import Polls, StepAttempt
from syncpod.messages import ObservedContainer, ObservedPod
from syncpod.messages.steps import KillTarget
from syncpod.pod import Pod

Selection = Sequence[tuple[ObservedContainer, KillTarget]]
"""Containers to end, and how to end each."""


async def end_containers(
    attempt: StepAttempt,
    select: Callable[[ObservedPod], Awaitable[Selection]],
    *,
    suffices: Callable[[ObservedPod], bool] = lambda _: False,
) -> ObservedPod:
    """End the containers that `select` picks from each new listing, until it picks none; return the last listing.

    The first listing may be the one that the pod's last step returned, if it `suffices`. Only steps make anything in
    the pod, so once all stops have succeeded, nothing in the pod is alive. Then that old listing is returned, without
    another read. The caller must read the pod before it reports the ends.

    `select` picks containers that have not exited. Created ones are removed: StopContainer does nothing to them, and a
    start that is under way would still run them. A container that is alive after its StopContainer (it was just being
    started, or has only now appeared) is stopped again. Raises Interrupted, while the StopContainer calls go on;
    CriError when the runtime refuses, after all other containers have been handled.
    """
    polls = Polls(attempt)
    while True:
        known = attempt.known(suffices)
        view = known if known is not None else await attempt.read()
        chosen = await select(view)
        if not chosen:
            return view
        attempt.doing = _what_is_waited_for(attempt, chosen)
        attempt.unended = [container.name for container, _ in chosen]
        await _end_in_order(attempt, view, chosen)
        if known is not None:
            return known
        view = await attempt.read()
        if not await select(view):
            return view
        await polls.pause()


async def _end_in_order(attempt: StepAttempt, view: ObservedPod, chosen: Selection) -> None:
    """End the containers concurrently.

    Each is ended after the containers that it has to follow, or when its grace is used up.

    Each end begins with the preStop hook. If no grace is left for the hook, a warning event is emitted. The grace is
    counted from the step's scheduling, over all its tries. Each container has at least the kubelet's 2 s
    (kuberuntime_container.go, v1.36, killContainer; kuberuntime_termination_order.go).
    """
    ended = {target.id: asyncio.Event() for _, target in chosen}

    async def end(container: ObservedContainer, target: KillTarget) -> None:
        try:
            if container.state == "created":
                await remove_unstarted(attempt, container.id)
                attempt.unended.remove(container.name)
                return
            waited = attempt.waited_seconds
            event = await attempt.node.pre_stops.carry_out(view, container, target, waited_seconds=waited)
            if event is not None and event not in attempt.events:
                attempt.events.append(event)
            turn = [ended[other].wait() for other in target.after if other in ended and other != target.id]
            await _within(target.grace_seconds - attempt.waited_seconds, turn)
            call = attempt.node.stops.stop(target.id, target.timeout_seconds(attempt.waited_seconds))
            await asyncio.wait({call})
            call.result()
            attempt.unended.remove(container.name)
            attempt.node.pre_stops.forget(target.id)
        finally:
            ended[target.id].set()

    async with attempt.aside():
        outcomes = await attempt.interruptible(_all_outcomes(end(*each) for each in chosen))
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


def emit_hook_events(attempt: StepAttempt, targets: Iterable[KillTarget]) -> tuple[str, ...]:
    """Emit the events of the preStop hooks, including hooks that an earlier try of this kill has carried out.

    The events of a try that failed, or whose worker was killed, were lost with it. Returns the names of the containers
    whose hook has succeeded.
    """
    succeeded = []
    for target in targets:
        if attempt.node.pre_stops.has_succeeded(target):
            succeeded.append(target.name)
        event = attempt.node.pre_stops.outcome(target, has_earlier_try=attempt.number > 1)
        if event is not None and event not in attempt.events:
            attempt.events.append(event)
    return tuple(succeeded)


async def _within(seconds: float, waits: Sequence[Awaitable[object]]) -> None:
    """Wait until all of `waits` have ended, but no longer than `seconds`."""
    if not waits:
        return
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            await asyncio.gather(*waits)
    except TimeoutError:
        return


async def _all_outcomes(works: Iterable[Awaitable[None]]) -> list[BaseException | None]:
    return await asyncio.gather(*works, return_exceptions=True)


def _what_is_waited_for(attempt: StepAttempt, chosen: Selection) -> str:
    """Return a phrase with the containers that have yet to end, and the rest of each grace, longest first."""
    left = sorted(
        ((target.timeout_seconds(attempt.waited_seconds), container.name) for container, target in chosen),
        reverse=True,
    )
    return "waits for " + ", ".join(f"{name} to stop (at most {seconds} s)" for seconds, name in left)


def kill_target(id_: str, name: str, pod: Pod | None, *, grace_seconds: int, with_hook: bool) -> KillTarget:
    """Return how to stop an instance of a container: with its preStop hook, if `pod` is known and has one for it."""
    spec = pod.spec if pod is not None else None
    specs = {each.name: each for each in (*spec.init_containers, *spec.containers)} if spec is not None else {}
    known = specs.get(name)
    lifecycle, ports = (known.lifecycle, known.ports) if known is not None else (None, ())
    return KillTarget(
        id=id_,
        name=name,
        grace_seconds=grace_seconds,
        pre_stop=lifecycle.pre_stop if lifecycle is not None and with_hook else None,
        ports={port.name: port.container_port for port in ports if port.name},
    )
