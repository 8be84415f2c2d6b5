"""``syncpod debug``: join a container for looking around to a pod that runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from syncpod.cli.commands.exec import has_terminal, write_ours
from syncpod.cli.console import printable, remark, say, warn
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Namespace

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.commands.debug_container import Wanted
    from syncpod.cri.client import CriClient
    from syncpod.pod import Pod

_POLL_SECONDS: Final = 0.1
_LOOKS_FOR_THE_END: Final = 20
"""How often a container is looked at after its streams have ended, before it is taken to run on."""
_UNDER_WAY: Final = ("", "ContainerCreating", "PodInitializing")
"""Reasons of waiting that pass by themselves."""
_NEVER_RAN: Final = ("StartError", "ContainerCannotRun")
"""Reasons of an end whose message says what kept the container from running."""


def debug(
    pod: Annotated[str, typer.Argument(metavar="POD", hidden=True, show_default=False)],
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", hidden=True, show_default=False)] = None,
    namespace: Namespace = "default",
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="The image to look around with.")] = "",
    target: Annotated[
        str, typer.Option("--target", metavar="NAME", help="A container whose processes are to be seen.")
    ] = "",
    container: Annotated[
        str, typer.Option("--container", "-c", metavar="NAME", help="What to call it.", show_default="debugger-xxxxx")
    ] = "",
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Give it input; ours where we are attached.")] = False,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give it a terminal.")] = False,
    attach: Annotated[
        bool | None,
        typer.Option("--attach/--no-attach", help="Stay with it until it ends.", show_default="with -i"),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable of its environment.")
    ] = None,
    image_pull_policy: Annotated[
        str, typer.Option("--image-pull-policy", metavar="POLICY", help="Always, IfNotPresent or Never.")
    ] = "",
    arguments_only: Annotated[
        bool, typer.Option("--arguments-only", help="Give COMMAND to the image's own program.")
    ] = False,
    profile: Annotated[
        str,
        typer.Option(
            "--profile",
            metavar="PROFILE",
            help="What it may do: general, baseline, restricted, netadmin, sysadmin. By default general, or baseline "
            "where containers are given no capabilities: on the embedded runtime without root.",
        ),
    ] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what the container writes.")] = False,
    copy_to: Annotated[
        str, typer.Option("--copy-to", metavar="NAME", help="Leave the pod alone, and join a copy of this name.")
    ] = "",
    share_processes: Annotated[
        bool | None,
        typer.Option(
            "--share-processes/--no-share-processes",
            help="With --copy-to: let all containers be seen.",
            show_default="share-processes",
        ),
    ] = None,
) -> None:
    """Look around in a running pod, from a container of its own.

    An ephemeral container joins the pod; its exit code is passed on. The pod's other containers run on as they are. An
    ephemeral container is never started again and cannot be taken away: it stays in the pod, ended, until the pod is
    deleted. One that does not start is tried again with a back-off, and keeps the pod from nothing. With --copy-to the
    pod itself is left alone: a copy of it is made that has the container besides, without the pod's labels, annotations
    and probes.

    \b
    Examples:
      syncpod debug web -it --image busybox --target app
      syncpod debug web --image busybox --attach -- nslookup db
      cat script.sh | syncpod debug web -i --image busybox -- sh
      syncpod debug web -it --image busybox --copy-to web-debug
    """  # noqa: D301
    from syncpod.cli.commands.debug_container import Wanted, default_profile, require_image_name
    from syncpod.cli.temporal import session

    name = pod_name([pod])
    if copy_to and target:
        raise BadInput("--target is of no use to a copy, whose containers see one another (--share-processes)")
    if share_processes is not None and not copy_to:
        flag = "--share-processes" if share_processes else "--no-share-processes"
        raise BadInput(f"{flag} needs --copy-to: whether the containers of a running pod see one another is settled")
    if not image:
        raise BadInput(f"say what to look around with: syncpod debug {name} --image IMAGE")
    require_image_name(image)
    if tty and not stdin:
        raise BadInput("--tty needs --stdin")
    attached = stdin if attach is None else attach
    if attached and tty:
        tty = has_terminal(stdin=stdin)
    wanted = Wanted(
        image=image,
        name=container,
        target=target,
        command=tuple(command or ()),
        arguments_only=arguments_only,
        env=tuple(env or ()),
        pull_policy=image_pull_policy,
        profile=profile,
        stdin=stdin,
        # What is piped into the container ends for it, too; a terminal may be attached to it again.
        stdin_once=stdin and attached and not tty,
        tty=tty,
    )

    async def work(client: Client) -> int:
        from syncpod.cli.machine.runtime_client import runtime_of
        from syncpod.cli.temporal.pods import require_pod

        found = (await require_pod(client, namespace, name)).pod
        if attached:
            runtime_of(found)  # a pod of another node is refused before anything is changed
        chosen = wanted if profile else replace(wanted, profile=default_profile(found))
        if copy_to:
            made, joined = await _copy(
                client, found, chosen, copy_to, share_processes=share_processes is not False, quiet=quiet
            )
        else:
            made, joined = found, await _join(client, found, chosen, quiet=quiet)
        if attached:
            return await _stay(await _until_begun(client, made, joined), joined)
        if not (copy_to or quiet):
            say(f'ephemeral container "{joined}" joined pod "{name}"')
        return 0

    raise typer.Exit(session.run(work))


async def _join(client: Client, pod: Pod, wanted: Wanted, *, quiet: bool) -> str:
    """Have an ephemeral container join the pod; return its name. Raises BadInput, Failure."""
    from syncpod.cli.commands.debug_container import debug_container
    from syncpod.cli.temporal.updates import send_update
    from syncpod.pod import pod_to_wire

    container = debug_container(pod, wanted)
    if not (wanted.name or quiet):
        remark(f"Defaulting debug container name to {container.name}.")
    if wanted.target and not quiet:
        remark(
            f'Targeting container "{wanted.target}". If you don\'t see processes from this container it may be because '
            "the container runtime doesn't support this feature."
        )
    await send_update(client, pod, "add_ephemeral_container", pod_to_wire(container))
    return container.name


async def _copy(
    client: Client, pod: Pod, wanted: Wanted, name: str, *, share_processes: bool, quiet: bool
) -> tuple[Pod, str]:
    """Apply a copy of the pod with the container in it; return both, the latter by name. Raises BadInput, Failure."""
    from syncpod.cli.commands.debug_container import debug_copy
    from syncpod.cli.temporal.pod_apply import apply_pod, has_search_attributes, refuse_cordoned
    from syncpod.cli.temporal.pods import read_pod, require_pod

    namespace = pod.metadata.namespace
    copy, container = debug_copy(pod, wanted, name, share_processes=share_processes)
    if await read_pod(client, namespace, name) is not None:
        raise BadInput(f'--copy-to: there is a pod "{name}" already')
    await refuse_cordoned(client, [copy.pod], pod.spec.node_name)
    if not (wanted.name or quiet):
        remark(f"Defaulting debug container name to {container}.")
    has_attributes = await has_search_attributes(client)
    await apply_pod(client, copy.pod, node=pod.spec.node_name, has_attributes=has_attributes)
    if not quiet:
        say(f"pod/{name} created")
    for warning in copy.warnings:
        warn(f"pod {name}: {warning}")
    return (await require_pod(client, namespace, name)).pod, container


async def _until_begun(client: Client, pod: Pod, container: str) -> Pod:
    """Return the pod once the container runs or has ended. Raises Failure with what keeps it from starting."""
    from syncpod.cli.machine.containers import status_of
    from syncpod.cli.temporal.pods import not_found, read_pod

    meta = pod.metadata
    while True:
        reading = await read_pod(client, meta.namespace, meta.name)
        if reading is None or (reading.current and reading.pod.metadata.uid != meta.uid):
            raise not_found(meta.name, meta.namespace)
        status = status_of(reading.pod, container)
        state, ended = status.state, status.last_state.terminated
        if state.running is not None or state.terminated is not None or ended is not None:
            return reading.pod
        if reading.pod.metadata.deletion_timestamp is not None or reading.pod.status.phase in ("Succeeded", "Failed"):
            raise Failure(f'pod "{meta.name}" ends: container "{container}" is not started any more')
        if state.waiting is not None and state.waiting.reason not in _UNDER_WAY:
            why = ": ".join(part for part in (state.waiting.reason, state.waiting.message) if part)
            raise Failure(
                f'container "{container}" does not start: {why}\n'
                f"it stays in the pod, which tries again: `syncpod describe pod {meta.name}` shows what comes of it, "
                f"and once it runs, `syncpod attach {meta.name} -c {container}` attaches"
            )
        await asyncio.sleep(_POLL_SECONDS)


async def _stay(pod: Pod, name: str) -> int:
    """Stay with a container that has begun until it ends or lets us go; return its exit code.

    One without input is followed by its log, so that nothing is missed of what it wrote before we were there; so is
    one that has ended already. Raises Failure.
    """
    from syncpod.cli.machine.containers import current_instance, status_of
    from syncpod.cli.machine.runtime_client import runtime_of, unanswered
    from syncpod.cri.errors import CriError, TransportFault

    instance = current_instance(pod, name)
    containers = (*pod.spec.containers, *pod.spec.ephemeral_containers)
    container = next(each for each in containers if each.name == name)
    runs = status_of(pod, name).state.running is not None
    async with runtime_of(pod) as runtime:
        try:
            if not (container.stdin and runs and await _attach(runtime, pod, instance.id, tty=container.tty)):
                await _follow(runtime, instance.id)
            return await _outcome(runtime, pod, name, instance.id)
        except TransportFault as fault:
            raise unanswered(fault) from None
        except CriError as error:
            why = error.message or error.code
            raise Failure(f'the runtime does not tell of container "{name}": {why}') from None


async def _attach(runtime: CriClient, pod: Pod, container_id: str, *, tty: bool) -> bool:
    """Attach for as long as the container, or our input, lasts; False = it had ended before. Raises Failure."""
    from syncpod.cli.commands.attach import attach
    from syncpod.cli.streams.remote_command import NeverRan, StreamBroken

    try:
        await attach(pod, container_id, stdin=True, tty=tty)
    except Failure as failure:
        begun = isinstance(failure, StreamBroken) and not isinstance(failure, NeverRan)
        if begun or (await runtime.container_status(container_id)).state == "running":
            raise
        return False
    return True


async def _follow(runtime: CriClient, container_id: str) -> None:
    """Write what a container has written and writes, until it has ended; one that never ran has no log."""
    from syncpod.cli.streams.log_files import read_log
    from syncpod.cli.streams.remote_command import Output
    from syncpod.cri.errors import CriError

    async def runs() -> bool:
        try:
            return (await runtime.container_status(container_id)).state == "running"
        except CriError:
            return False

    path = Path((await runtime.container_status(container_id)).log_path)
    try:
        async for line in read_log(path, runs=runs):
            await write_ours(Output(line.stream), line.text + b"\n")
    except FileNotFoundError:
        return
    except PermissionError:
        # No bad input any more, which would say that nothing has been done: the container has joined.
        raise Failure(f"{path}: permission denied; run as root") from None


async def _outcome(runtime: CriClient, pod: Pod, container: str, container_id: str) -> int:
    """Return the code that a container has ended with; one that runs on let us go, which is no failure."""
    for _ in range(_LOOKS_FOR_THE_END):
        status = await runtime.container_status(container_id)
        if status.state != "running":
            if status.reason in _NEVER_RAN and status.message:
                warn(f"container {container}: {printable(status.message)}")
            return status.exit_code
        await asyncio.sleep(_POLL_SECONDS)
    remark(f"The container runs on: `syncpod attach {pod.metadata.name} -c {container}` attaches again.")
    return 0
