"""preStop and postStart: running a container's own hooks, and reporting how they went."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from activities.node.clock import monotonic
from syncpod.cri import CriRuntime
from syncpod.cri.errors import Unavailable
from syncpod.handlers.answer import Target
from syncpod.handlers.hook import HookFailed, run_hook
from syncpod.messages import PRE_STOP_FAILED, ObservedContainer, ObservedPod
from syncpod.messages.steps import KillTarget, StepEvent
from syncpod.pod import LifecycleHandler
from syncpod.translation.context import NodeContext

logger = logging.getLogger(__name__)


def hook_target(context: NodeContext, view: ObservedPod, container_id: str, ports: Mapping[str, int]) -> Target:
    """Return the target of a container's hook; for a pod on the node's network it has the node's address."""
    sandbox = next((each for each in view.sandboxes if each.ready), None)
    ip = (sandbox.ip if sandbox is not None else None) or next(iter(context.host.addresses), "")
    return Target(view.uid, container_id, ip, dict(ports))


async def carry_out_hook(handler: LifecycleHandler, where: Target, cri: CriRuntime) -> str:
    """Run a hook to its end; return a warning to report, "" if there is none. Raises only HookFailed.

    An unexpected error counts as a failure of the hook, named by the error's type. Otherwise it could block the end of
    a container, or the start of a running container would be retried for ever. A cancelled hook stays cancelled.
    """
    try:
        return await run_hook(handler, where, cri)
    except HookFailed:
        raise
    except Exception as error:
        raise HookFailed(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class _Hook:
    """A hook that has begun, and the monotonic time at which it began."""

    task: asyncio.Task[str]
    begun: float


REMEMBERED = 10_000
"""How many hooks of containers are remembered: more than kills are ever under way at once."""


class PreStops:
    """The preStop hooks that are running, one per container; they outlive the step that started them.

    A second kill (one with a shorter grace) waits for the hook under way, and does not run it again. A hook runs again
    after a restart of the worker, and after the hook's connection to the runtime broke. So a hook runs at least once if
    the grace lasts long enough; otherwise an event reports that it did not run.
    """

    def __init__(self, cri: CriRuntime, context: NodeContext) -> None:
        self._cri = cri
        self._context = context
        self._since = monotonic()
        self._hooks: dict[str, _Hook] = {}
        self._cut_off: set[str] = set()
        """Containers whose hook lost the connection to the runtime: how far the hook got is not known."""
        self._reported: dict[str, StepEvent | None] = {}
        """The last event about each container's hook (None: nothing to report), until its kill has ended. If a kill was
        cut off and is never tried again, its entry is never taken. So the oldest entries are dropped."""

    async def carry_out(
        self, view: ObservedPod, container: ObservedContainer, target: KillTarget, *, waited_seconds: float
    ) -> StepEvent | None:
        """Wait for the container's hook as long as its grace lasts; return the event to report, if any.

        `waited_seconds` have passed since the kill was scheduled. The kill goes on, even if the hook fails or hangs.
        FailedPreStopHook reports a hook that failed (without its output), one that did not end in time, and one that
        was not run at all, because the runtime or the worker was away for longer than the grace. Differences: the
        kubelet reports only hooks that failed (kuberuntime_container.go, v1.36, executePreStopHook), and after such an
        absence it runs the hook with a new grace.
        """
        if target.pre_stop is None:
            return None
        reported = await self._carry_out(view, container, target, target.pre_stop, waited_seconds)
        self._reported.pop(target.id, None)
        self._reported[target.id] = reported
        while len(self._reported) > REMEMBERED:
            self.forget(oldest := next(iter(self._reported)))
            del self._reported[oldest]
        return reported

    def has_succeeded(self, target: KillTarget) -> bool:
        """Return whether the container's hook has run to its end without a failure. Call it before `outcome`."""
        reported = self._reported.get(target.id)
        return target.id in self._reported and (reported is None or reported.reason != PRE_STOP_FAILED)

    def outcome(self, target: KillTarget, *, has_earlier_try: bool) -> StepEvent | None:
        """Return the event to report about a container's hook, if any, after the end of its kill, and forget the hook.

        `has_earlier_try` is True if the kill was tried before, perhaps by a worker that has died.
        """
        self.forget(target.id)
        if target.pre_stop is None:
            return None
        if target.id in self._reported:
            return self._reported.pop(target.id)
        if not has_earlier_try:  # the container had exited by itself
            return None
        why = "the container has ended since an earlier try to stop it, which was cut off"
        return _warning(PRE_STOP_FAILED, f"PreStopHook may not have run: {why}", target)

    async def _carry_out(
        self,
        view: ObservedPod,
        container: ObservedContainer,
        target: KillTarget,
        handler: LifecycleHandler,
        waited_seconds: float,
    ) -> StepEvent | None:
        left = target.grace_seconds - waited_seconds
        hook = self._hooks.get(target.id)
        if hook is None:
            if left <= 0 or container.state != "running":
                return self._not_run(container, target, waited_seconds)
            hook = self._begin(view, target, handler)
        done, _ = await asyncio.wait({hook.task}, timeout=max(0.0, left))
        if not done:
            had = monotonic() - hook.begun
            message = f"PreStopHook did not end within the grace period: it had {had:.0f} s"
            return _warning(PRE_STOP_FAILED, message, target)
        try:
            reported = hook.task.result()
        except HookFailed as failed:
            if isinstance(failed.__cause__, Unavailable):
                # The stop that follows fails too, and the kill is tried again when the runtime answers.
                self._cut_off.add(target.id)
                del self._hooks[target.id]
            logger.warning("the preStop hook of container %s failed: %s", target.id, failed)
            return _warning(PRE_STOP_FAILED, "PreStopHook failed", target)
        return _warning("LifecycleHTTPFallback", reported, target) if reported else None

    def forget(self, container_id: str) -> None:
        """Cancel the hook of a container that has ended."""
        self._cut_off.discard(container_id)
        hook = self._hooks.pop(container_id, None)
        if hook is not None:
            hook.task.cancel()

    def _begin(self, view: ObservedPod, target: KillTarget, handler: LifecycleHandler) -> _Hook:
        where = hook_target(self._context, view, target.id, target.ports)
        work = carry_out_hook(handler, where, self._cri)
        task = asyncio.create_task(work, name=f"preStop {target.name}")
        hook = self._hooks[target.id] = _Hook(task, monotonic())
        return hook

    def _not_run(self, container: ObservedContainer, target: KillTarget, waited_seconds: float) -> StepEvent:
        """Return the event about a hook that is skipped; an earlier worker may have run it."""
        if container.state != "running":
            why = f"the runtime lists the container as {container.state}"
        else:
            why = "its grace period was over before the container could be reached"
        alone = monotonic() - self._since >= waited_seconds and target.grace_seconds > 0
        what = "was not run" if alone and target.id not in self._cut_off else "may not have run"
        return _warning(PRE_STOP_FAILED, f"PreStopHook {what}: {why}", target)


def _warning(reason: str, message: str, target: KillTarget) -> StepEvent:
    return StepEvent(type="Warning", reason=reason, message=message, container=target.name)
