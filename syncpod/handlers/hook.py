"""Runs a container's lifecycle hooks (lifecycle/handlers.go, v1.36)."""

from __future__ import annotations

import asyncio
from typing import Final

from syncpod.cri.errors import CommandTimedOut, CriError, go_error
from syncpod.cri.port import CriRuntime
from syncpod.handlers.answer import NoAnswer, Target, written
from syncpod.handlers.http_get import http_get_hook
from syncpod.pod import HTTPGetAction, LifecycleHandler
from syncpod.pod.go_text import go_quote

_NOT_TLS: Final = "WRONG_VERSION_NUMBER"
"""Part of the TLS error for a server that speaks plain HTTP."""


class HookFailed(Exception):
    """The hook failed; the text is the error, without the hook's standard output."""

    def __init__(self, error: str, output: str = "") -> None:
        super().__init__(error)
        self.output = output
        """The output of a command: its standard output, then its standard error."""


def failure_message(handler: LifecycleHandler, container: str, pod: str, failed: HookFailed) -> str:
    """Return the waiting message of a container whose postStart hook has failed (lifecycle/handlers.go, v1.36, Run).

    `pod` is ``name_namespace(uid)``. The message quotes the hook's output, so put it in the status and not in an event.
    """
    about = f"for Container {go_quote(container)} in Pod {go_quote(pod)} failed - error: {failed}"
    if handler.exec is not None:
        words = " ".join(handler.exec.command)
        return f"Exec lifecycle hook ([{words}]) {about}, message: {go_quote(failed.output)}"
    if handler.http_get is not None:
        return f"HTTP lifecycle hook ({handler.http_get.path}) {about}"
    if handler.sleep is not None:
        return f"Sleep lifecycle hook ({handler.sleep.seconds}) {about}"
    return f"Cannot run handler: {failed}"


async def run_hook(handler: LifecycleHandler, target: Target, cri: CriRuntime) -> str:
    """Run a hook to its end, without a timeout; return a warning to report, "" if there is none.

    An HTTPS request to a server without TLS is repeated without TLS. Raises :class:`HookFailed`.
    """
    if handler.exec is not None:
        await _run(handler.exec.command, target, cri)
    elif handler.http_get is not None:
        return await _get(handler.http_get, target)
    elif handler.sleep is not None:
        await asyncio.sleep(handler.sleep.seconds)
    else:
        # A tcpSocket hook is valid, but the kubelet has never run one (handlers.go, v1.36, Run).
        raise HookFailed("invalid handler: it is neither exec nor httpGet nor sleep")
    return ""


async def _run(command: tuple[str, ...], target: Target, cri: CriRuntime) -> None:
    try:
        done = await cri.exec_sync(target.container_id, command, timeout_seconds=0)
    except (CommandTimedOut, CriError) as error:
        raise HookFailed(go_error(error)) from error
    if done.exit_code:
        output, complaint = written(done.stdout, done.stderr), written(done.stderr)
        raise HookFailed(f"command '{' '.join(command)}' exited with {done.exit_code}: {complaint}", output)


async def _get(action: HTTPGetAction, target: Target) -> str:
    failed = await _failure_of_request(action, target)
    if not failed:
        return ""
    if (action.scheme or "HTTP") == "HTTPS" and _NOT_TLS in failed:
        plain = action.model_copy(update={"scheme": "HTTP"})
        if not await _failure_of_request(plain, target):
            where = f"{action.host or target.ip}:{action.port}"
            return f"request to HTTPS lifecycle hook {where} got HTTP response, retry with HTTP succeeded"
    raise HookFailed(failed)


async def _failure_of_request(action: HTTPGetAction, target: Target) -> str:
    """Return the reason why a request got no response; "" if it got one."""
    try:
        return await http_get_hook(action, target)
    except NoAnswer as error:
        return str(error)
