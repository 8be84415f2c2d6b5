"""``syncpod exec``: run a command in a container."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.arguments import pod_name
from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.options import Container, Namespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import Client

    from syncpod.cli.streaming import Channel
    from syncpod.pod import Pod


def exec_(
    pod: Annotated[str, typer.Argument(metavar="POD", hidden=True, show_default=False)],
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", hidden=True, show_default=False)] = None,
    namespace: Namespace = "default",
    container: Container = "",
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Pass our input to the command.")] = False,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give the command a terminal.")] = False,
) -> None:
    """Run a command in a container; its exit code is passed on."""
    from syncpod.cli import session

    name = pod_name([pod])
    if not command:
        raise BadInput(f"say what to run: syncpod exec {name} -- COMMAND")
    if tty and not (stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        remark("Note: no terminal to lend to the command (--tty needs --stdin and a terminal); going on without")
        tty = False

    async def work(client: Client) -> int:
        from syncpod.cli.containers import chosen_container
        from syncpod.cli.pods import require_pod

        found = (await require_pod(client, namespace, name)).pod
        return await _run(found, chosen_container(found, container), command, stdin=stdin, tty=tty)

    raise typer.Exit(session.run(work))


async def _run(pod: Pod, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> int:
    from syncpod.cli import terminal
    from syncpod.cli.containers import running_instance, runtime_of, unanswered
    from syncpod.cli.streaming import NoEndOfInput, StreamBroken, stream
    from syncpod.cri.errors import CriError, TransportFault

    instance = running_instance(pod, container)
    async with runtime_of(pod) as runtime:
        try:
            url = await runtime.exec(instance.id, tuple(command), tty=tty, stdin=stdin, stdout=True, stderr=not tty)
        except TransportFault as fault:
            raise unanswered(fault) from None
        except CriError as error:
            raise Failure(f'the runtime refuses to run a command in container "{container}": {error.message}') from None
    source = sys.stdin.fileno() if stdin else -1
    try:
        with terminal.raw(source) if tty else contextlib.nullcontext():
            return await stream(
                url,
                stdin=terminal.read(source) if stdin else None,
                sizes=terminal.sizes(source) if tty else None,
                write=_write,
                input_ends=stdin and not sys.stdin.isatty(),
            )
    except NoEndOfInput as error:
        raise BadInput(f"{error}: with it `exec --stdin` takes input from a terminal only") from None
    except StreamBroken as error:
        raise Failure(str(error)) from None


def _write(channel: Channel, data: bytes) -> None:
    from syncpod.cli.streaming import Channel

    stream = sys.stderr.buffer if channel is Channel.STDERR else sys.stdout.buffer
    stream.write(data)
    stream.flush()
