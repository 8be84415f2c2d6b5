"""``syncpod debug``: add a debug container to a running pod, or to a copy of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.commands.exec import has_terminal
from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.kind_words import NODE_WORDS
from syncpod.cli.input.options import AttachUntilEnd, InnerCommand, Namespace, OurStdin, OurTerminal, PodName

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.commands.debug_container import DebugRequest
    from syncpod.pod import Pod

Image = Annotated[str, typer.Option("--image", metavar="IMAGE", help="The image of the debug container.")]
Target = Annotated[str, typer.Option("--target", metavar="NAME", help="The container whose processes it is to see.")]
ContainerName = Annotated[
    str, typer.Option("--container", "-c", metavar="NAME", help="Its name.", show_default="debugger-xxxxx")
]
Env = Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="An environment variable for it.")]
PullPolicy = Annotated[
    str, typer.Option("--image-pull-policy", metavar="POLICY", help="Always, IfNotPresent or Never.")
]
ArgumentsOnly = Annotated[
    bool, typer.Option("--arguments-only", help="Pass COMMAND as arguments to the image's entry point.")
]
Profile = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="PROFILE",
        help="Its rights: general, baseline, restricted, netadmin, sysadmin. By default general, or baseline "
        "where containers cannot have capabilities: on the embedded runtime without root.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the container's output.")]
CopyTo = Annotated[
    str, typer.Option("--copy-to", metavar="NAME", help="Debug a copy of the pod with this name instead.")
]
ShareProcesses = Annotated[
    bool | None,
    typer.Option(
        "--share-processes/--no-share-processes",
        help="With --copy-to: share one process namespace.",
        show_default="share-processes",
    ),
]


def debug(
    pod: PodName,
    command: InnerCommand = None,
    namespace: Namespace = "default",
    image: Image = "",
    target: Target = "",
    container: ContainerName = "",
    stdin: OurStdin = False,
    tty: OurTerminal = False,
    attach: AttachUntilEnd = None,
    env: Env = None,
    image_pull_policy: PullPolicy = "",
    arguments_only: ArgumentsOnly = False,
    profile: Profile = "",
    quiet: Quiet = False,
    copy_to: CopyTo = "",
    share_processes: ShareProcesses = None,
) -> None:
    """Debug a running pod from a container of its own.

    An ephemeral container joins the pod; its exit code is passed on. The pod's other containers keep running. An
    ephemeral container is never restarted and cannot be removed: it stays in the pod, ended, until the pod is deleted.
    If it does not start, the node tries again with a back-off, and nothing else in the pod waits for it. With
    --copy-to, the pod itself is left alone: the container is added to a copy of it, without the pod's labels,
    annotations and probes.

    \b
    Examples:
      syncpod debug web -it --image busybox --target app
      syncpod debug web --image busybox --attach -- nslookup db
      cat script.sh | syncpod debug web -i --image busybox -- sh
      syncpod debug web -it --image busybox --copy-to web-debug
    """  # noqa: D301
    from syncpod.cli.commands.debug_container import DebugRequest
    from syncpod.cli.temporal import session

    if pod.partition("/")[0] in NODE_WORDS and "/" in pod:
        raise BadInput(
            f"{pod!r}: a node is a machine: debug it in its own shell; `syncpod explain node` shows its past"
        )
    name = pod_name([pod])
    how = _How(stdin if attach is None else attach, copy_to=copy_to, share_processes=share_processes, quiet=quiet)
    wanted = DebugRequest(image, container, target, tuple(command or ()), arguments_only, tuple(env or ()))
    wanted = replace(wanted, pull_policy=image_pull_policy, profile=profile, stdin=stdin, tty=tty)
    _require_sense(name, wanted, how)
    if how.attached and tty:
        wanted = replace(wanted, tty=has_terminal(stdin=stdin))
    # The container's input ends with piped input, but not with a terminal, since another may attach.
    wanted = replace(wanted, stdin_once=stdin and how.attached and not wanted.tty)
    raise typer.Exit(session.run(lambda client: _debug(client, namespace, name, wanted, how)))


@dataclass(frozen=True)
class _How:
    """Which pod gets the debug container, and whether we attach to the container."""

    attached: bool
    """Whether we attach to the container until it ends."""
    copy_to: str
    """The name of the copy of the pod that gets the container; "" = the pod itself gets it."""
    share_processes: bool | None
    """Whether the containers of the copy share processes; None = the default, which is yes."""
    quiet: bool


def _require_sense(name: str, wanted: DebugRequest, how: _How) -> None:
    """Raise BadInput for flags that do not go together, or if no image is named."""
    from syncpod.cli.commands.debug_container import require_image_name

    if how.copy_to and wanted.target:
        raise BadInput(
            "--target does not go with --copy-to: containers of a copy share their processes (--share-processes)"
        )
    if how.share_processes is not None and not how.copy_to:
        flag = "--share-processes" if how.share_processes else "--no-share-processes"
        raise BadInput(f"{flag} needs --copy-to: for a running pod it cannot be changed")
    if not wanted.image:
        raise BadInput(f"name an image: syncpod debug {name} --image IMAGE")
    require_image_name(wanted.image)
    if wanted.tty and not wanted.stdin:
        raise BadInput("--tty needs --stdin")


async def _debug(client: Client, namespace: str, name: str, wanted: DebugRequest, how: _How) -> int:
    """Add the container to the pod, or to a copy of it; return its exit code if we attach, else 0."""
    from syncpod.cli.commands.debug_container import default_profile
    from syncpod.cli.machine.runtime_client import runtime_of
    from syncpod.cli.temporal.pods import require_pod

    pod = (await require_pod(client, namespace, name)).pod
    if how.attached:
        runtime_of(pod)  # refuse a pod of another node before changing anything
    if not wanted.profile:
        wanted = replace(wanted, profile=default_profile(pod))
    if how.copy_to:
        pod, joined = await _copy(client, pod, wanted, how)
    else:
        joined = await _join(client, pod, wanted, quiet=how.quiet)
    if how.attached:
        from syncpod.cli.commands.attached_container import stay, until_begun

        return await stay(await until_begun(client, pod, joined), joined)
    if not (how.copy_to or how.quiet):
        say(f'ephemeral container "{joined}" joined pod "{name}"')
    return 0


async def _join(client: Client, pod: Pod, wanted: DebugRequest, *, quiet: bool) -> str:
    """Add an ephemeral container to the pod; return its name. Raises BadInput, Failure."""
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


async def _copy(client: Client, pod: Pod, wanted: DebugRequest, how: _How) -> tuple[Pod, str]:
    """Apply a copy of the pod with the container; return it, and the container's name. Raises BadInput, Failure."""
    from syncpod.cli.commands.debug_container import debug_copy
    from syncpod.cli.temporal.pod_apply import apply_pod, refuse_cordoned
    from syncpod.cli.temporal.pods import read_pod, require_pod

    namespace, name = pod.metadata.namespace, how.copy_to
    copy, container = debug_copy(pod, wanted, name, share_processes=how.share_processes is not False)
    if await read_pod(client, namespace, name) is not None:
        raise BadInput(f'--copy-to: there is a pod "{name}" already')
    await refuse_cordoned(client, [copy.pod], pod.spec.node_name)
    if not (wanted.name or how.quiet):
        remark(f"Defaulting debug container name to {container}.")
    await apply_pod(client, copy.pod, node=pod.spec.node_name)
    if not how.quiet:
        say(f"pod/{name} created")
    for warning in copy.warnings:
        warn(f"pod {name}: {warning}")
    return (await require_pod(client, namespace, name)).pod, container
