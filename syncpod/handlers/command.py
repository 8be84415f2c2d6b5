"""Exec probes (pkg/probe/exec, v1.36)."""

from __future__ import annotations

from datetime import timedelta

from syncpod.cri.errors import CommandTimedOut, CriError, go_error
from syncpod.cri.port import CriRuntime
from syncpod.go_durations import go_duration
from syncpod.handlers.answer import BODY_LIMIT, Answer, NoAnswer, Target
from syncpod.pod import ExecAction
from syncpod.pod.go_text import go_quote


async def run_command(action: ExecAction, target: Target, timeout_seconds: int, cri: CriRuntime) -> Answer:
    """Run the command once: exit code 0 is success, a timeout is a failure.

    Raises :class:`NoAnswer` if the runtime cannot run it.
    """
    try:
        done = await cri.exec_sync(target.container_id, action.command, timeout_seconds=timeout_seconds)
    except CommandTimedOut:
        limit = go_duration(timedelta(seconds=timeout_seconds))
        words = go_quote(" ".join(action.command))
        return Answer("failure", f"command timed out: {words} timed out after {limit}")
    except CriError as error:
        raise NoAnswer(go_error(error)) from error
    output = (done.stdout + done.stderr)[:BODY_LIMIT].decode(errors="replace")
    return Answer("success" if done.exit_code == 0 else "failure", output)
