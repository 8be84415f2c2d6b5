"""preStop and postStart: running a container's own hooks, and reporting how they went."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from syncpod.cri import CriRuntime
from syncpod.handlers.answer import Target
from syncpod.handlers.hook import HookFailed, run_hook
from syncpod.messages import KillTarget, ObservedPod, StepEvent
from syncpod.pod import LifecycleHandler
from syncpod.translation.context import NodeContext

logger = logging.getLogger(__name__)


def hook_target(context: NodeContext, view: ObservedPod, container_id: str, ports: Mapping[str, int]) -> Target:
    """Return the target of a container's hook; for a pod on the node's network it has the node's address."""
    sandbox = next((each for each in view.sandboxes if each.ready), None)
    ip = (sandbox.ip if sandbox is not None else None) or next(iter(context.host.addresses), "")
    return Target(container_id, ip, dict(ports))


async def carry_out_hook(handler: LifecycleHandler, where: Target, cri: CriRuntime) -> str:
    """Run a hook to its end; return what is to be reported of it, "" = nothing. Raises only HookFailed.

    An unexpected error is the hook's failure too, named by its type: it must not hold up the end of a container, nor
    have the start of one that runs retried without end. A cancelled hook stays cancelled.
    """
    try:
        return await run_hook(handler, where, cri)
    except HookFailed:
        raise
    except Exception as error:
        raise HookFailed(f"{type(error).__name__}: {error}") from error


class PreStops:
    """The preStop hooks that are running, one for a container, whatever becomes of the step.

    A second kill (one with a shorter grace) waits for the hook under way, and does not run it again. After a restart of
    the worker it runs again: a hook runs at least once.
    """

    def __init__(self, cri: CriRuntime, context: NodeContext) -> None:
        self._cri = cri
        self._context = context
        self._hooks: dict[str, asyncio.Task[str]] = {}

    async def carry_out(self, view: ObservedPod, target: KillTarget, seconds: float) -> StepEvent | None:
        """Wait for the container's hook, for no longer than `seconds`; return the event to report, if any.

        The kill goes on whatever the hook does. FailedPreStopHook reports a hook that failed, without any of its
        output, and one that did not end in time. Difference: the kubelet does not report the latter
        (kuberuntime_container.go, v1.36, executePreStopHook).
        """
        if target.pre_stop is None:
            return None
        where = hook_target(self._context, view, target.id, target.ports)
        hook = self._hooks.get(target.id)
        if hook is None:
            work = carry_out_hook(target.pre_stop, where, self._cri)
            hook = self._hooks[target.id] = asyncio.create_task(work, name=f"preStop {target.name}")
        done, _ = await asyncio.wait({hook}, timeout=max(0.0, seconds))
        if not done:
            message = f"PreStopHook did not end within the grace period: it had {seconds:.0f} s"
            return _warning("FailedPreStopHook", message, target)
        try:
            told = hook.result()
        except HookFailed as failed:
            logger.warning("the preStop hook of container %s failed: %s", target.id, failed)
            return _warning("FailedPreStopHook", "PreStopHook failed", target)
        return _warning("LifecycleHTTPFallback", told, target) if told else None

    def forget(self, container_id: str) -> None:
        """Cancel the hook of a container that has ended."""
        hook = self._hooks.pop(container_id, None)
        if hook is not None:
            hook.cancel()


def _warning(reason: str, message: str, target: KillTarget) -> StepEvent:
    return StepEvent(type="Warning", reason=reason, message=message, container=target.name)
