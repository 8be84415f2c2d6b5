"""preStop and postStart: what a container's own hooks are given, and what is said of them."""

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
    """Return where a hook of the container is carried out; on the node's network that is the node's address."""
    sandbox = next((each for each in view.sandboxes if each.ready), None)
    ip = (sandbox.ip if sandbox is not None else None) or next(iter(context.host.addresses), "")
    return Target(container_id, ip, dict(ports))


async def carry_out_hook(handler: LifecycleHandler, where: Target, cri: CriRuntime) -> str:
    """Carry a hook out to its end; return what is to be told of it, "" = nothing. Raises HookFailed, and nothing else.

    What nobody has foreseen is the hook's failure too, named by its type: it must neither hold up the end of a
    container nor have the start of one that runs retried without end. A cancelled hook stays cancelled.
    """
    try:
        return await run_hook(handler, where, cri)
    except HookFailed:
        raise
    except Exception as error:
        raise HookFailed(f"{type(error).__name__}: {error}") from error


class PreStops:
    """The preStop hooks that are being carried out, each once for a container, whatever becomes of the step.

    A second kill (one with a shorter grace) waits for the hook that is under way, and does not begin it again. After a
    restart of the worker it is begun again: a hook is carried out at least once.
    """

    def __init__(self, cri: CriRuntime, context: NodeContext) -> None:
        self._cri = cri
        self._context = context
        self._hooks: dict[str, asyncio.Task[str]] = {}

    async def carry_out(self, view: ObservedPod, target: KillTarget, seconds: float) -> StepEvent | None:
        """Wait for the container's hook, for no longer than `seconds`; return what is to be said of it, if anything.

        Whatever comes of it stops nobody from the kill. FailedPreStopHook is said of one that failed, in words that
        hold nothing of its output, and of one that did not end in time. Difference: the kubelet tells nobody of the
        latter (kuberuntime_container.go, v1.36, executePreStopHook).
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
        """Give up a hook of a container that has ended."""
        hook = self._hooks.pop(container_id, None)
        if hook is not None:
            hook.cancel()


def _warning(reason: str, message: str, target: KillTarget) -> StepEvent:
    return StepEvent(type="Warning", reason=reason, message=message, container=target.name)
