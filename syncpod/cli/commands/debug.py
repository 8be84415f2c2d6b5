"""``syncpod debug``: add a debug container to a running pod, or to a copy of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from syncpod.cli.commands.exec import has_terminal
from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import AlreadyExists, BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.kind_words import NODE_WORDS
from syncpod.cli.input.manifest_files import standard_input
from syncpod.cli.input.options import AttachUntilEnd, InnerCommand, Namespace, OurStdin, OurTerminal, PodName

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.commands.debug_container import CopyRequest, DebugRequest
    from syncpod.pod import Pod

Image = Annotated[str, typer.Option("--image", metavar="IMAGE", help="The image of the debug container.")]
Target = Annotated[str, typer.Option("--target", metavar="NAME", help="The container whose processes it is to see.")]
ContainerName = Annotated[
    str,
    typer.Option(
        "--container",
        "-c",
        metavar="NAME",
        help="Its name; with --copy-to perhaps that of a container of the pod, which is then changed.",
        show_default="debugger-xxxxx",
    ),
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
        show_default="share-processes, unless the pod says otherwise",
    ),
]
SetImage = Annotated[
    list[str] | None,
    typer.Option("--set-image", metavar="NAME=IMAGE", help="With --copy-to: a container's image in the copy; * = all."),
]
Replace = Annotated[bool, typer.Option("--replace", help="With --copy-to: delete the pod, without a grace period.")]
SameNode = Annotated[
    bool, typer.Option("--same-node", help="With --copy-to: run the copy on the pod's node, as is always done here.")
]
KeepLabels = Annotated[bool, typer.Option("--keep-labels", help="With --copy-to: keep the pod's labels.")]
KeepAnnotations = Annotated[bool, typer.Option("--keep-annotations", help="With --copy-to: keep its annotations.")]
KeepLiveness = Annotated[bool, typer.Option("--keep-liveness", help="With --copy-to: keep its liveness probes.")]
KeepReadiness = Annotated[bool, typer.Option("--keep-readiness", help="With --copy-to: keep its readiness probes.")]
KeepStartup = Annotated[bool, typer.Option("--keep-startup", help="With --copy-to: keep its startup probes.")]
KeepInitContainers = Annotated[
    bool | None,
    typer.Option(
        "--keep-init-containers/--no-keep-init-containers",
        help="With --copy-to: keep its init containers.",
        show_default="keep-init-containers",
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
    set_image: SetImage = None,
    replace: Replace = False,
    same_node: SameNode = False,
    keep_labels: KeepLabels = False,
    keep_annotations: KeepAnnotations = False,
    keep_liveness: KeepLiveness = False,
    keep_readiness: KeepReadiness = False,
    keep_startup: KeepStartup = False,
    keep_init_containers: KeepInitContainers = None,
) -> None:
    """Debug a running pod from a container of its own.

    An ephemeral container joins the pod; its exit code is passed on. The pod's other containers keep running. An
    ephemeral container is never restarted and cannot be removed: it stays in the pod, ended, until the pod is deleted.
    If it does not start, the node tries again with a back-off, and nothing else in the pod waits for it.

    With --copy-to, the pod itself is left alone: a container is added to a copy of it, or one of its containers is
    changed there. The copy has the pod's labels, annotations and probes only with the `--keep-` flags.
    """
    from syncpod.cli.commands.debug_container import CopyRequest, DebugRequest, images_of

    wanted = DebugRequest(image, container, target, tuple(command or ()), arguments_only, tuple(env or ()))
    wanted = dataclasses.replace(wanted, pull_policy=image_pull_policy, profile=profile, stdin=stdin, tty=tty)
    probes = {"livenessProbe": keep_liveness, "readinessProbe": keep_readiness, "startupProbe": keep_startup}
    kept = {"labels": keep_labels, "annotations": keep_annotations, **probes}
    copy = CopyRequest(
        copy_to,
        images_of(set_image or ()),
        share_processes,
        replace,
        frozenset(field for field, keeps in kept.items() if keeps),
        keeps_init_containers=keep_init_containers is not False,
    )
    how = _How(stdin if attach is None else attach, is_attach_given=bool(attach), copy=copy, quiet=quiet)
    _require_copy(how, same_node=same_node, init_containers=keep_init_containers)
    _run(pod, namespace, wanted, how)


@dataclass(frozen=True)
class _How:
    """Which pod gets the debug container, and whether we attach to the container."""

    attached: bool
    """Whether we attach to the container until it ends."""
    is_attach_given: bool
    """Whether ``--attach`` is given, rather than implied by ``--stdin``."""
    copy: CopyRequest
    quiet: bool


def _require_copy(how: _How, *, same_node: bool, init_containers: bool | None) -> None:
    """Raise BadInput for a flag that only a copy can have, if no copy is requested. The error names the flag."""
    copy = how.copy
    if copy.name:
        return
    if copy.share_processes is not None:
        flag = "--share-processes" if copy.share_processes else "--no-share-processes"
        raise BadInput(f"{flag} needs --copy-to: for a running pod it cannot be changed")
    names = {"livenessProbe": "liveness", "readinessProbe": "readiness", "startupProbe": "startup"}
    given = {
        "--set-image": bool(copy.images),
        "--replace": copy.replace,
        "--same-node": same_node,
        "--keep-init-containers": init_containers is True,
        "--no-keep-init-containers": init_containers is False,
        **{f"--keep-{names.get(field, field)}": True for field in sorted(copy.kept)},
    }
    for flag, is_given in given.items():
        if is_given:
            raise BadInput(f"{flag} needs --copy-to")


def _run(pod: str, namespace: str, wanted: DebugRequest, how: _How) -> NoReturn:
    """Debug a pod, and exit with the container's exit code if we attach, else 0. Raises BadInput, Failure."""
    from syncpod.cli.temporal import session

    if pod.partition("/")[0] in NODE_WORDS and "/" in pod:
        raise BadInput(
            f"{pod!r}: a node is a machine: debug it in its own shell; `syncpod explain node` shows its past"
        )
    name = pod_name([pod])
    _require_sense(name, wanted, how)
    if how.attached and wanted.stdin:
        standard_input()  # raises if our input is closed, before the pod is changed
    if how.attached and wanted.tty:
        wanted = dataclasses.replace(wanted, tty=has_terminal(stdin=wanted.stdin))
    # The container's input ends with piped input, but not with a terminal, since another client may attach.
    wanted = dataclasses.replace(wanted, stdin_once=wanted.stdin and how.attached and not wanted.tty)
    raise typer.Exit(session.run(lambda client: _debug(client, namespace, name, wanted, how)))


def _require_sense(name: str, wanted: DebugRequest, how: _How) -> None:
    """Raise BadInput for flags that do not go together, or if nothing is to be debugged.

    Mirrors cmd/debug/debug.go, v1.36, Validate.
    """
    from syncpod.cli.commands.debug_container import require_image_name

    copy = how.copy
    if how.is_attach_given and not (wanted.image or wanted.name):
        raise BadInput("--attach needs a container: name one with --container, or a new one's image with --image")
    if copy.name and wanted.target:
        raise BadInput(
            "--target does not go with --copy-to: containers of a copy share their processes (--share-processes)"
        )
    if copy.name and not (wanted.image or copy.images or wanted.command):
        raise BadInput("--copy-to needs what is to differ in the copy: --image, --set-image or a command behind --")
    if copy.name and wanted.command and not (wanted.name or wanted.image):
        raise BadInput("name the container that runs the command with --container, or a new one's image with --image")
    if not (wanted.image or copy.name):
        raise BadInput(f"name an image: syncpod debug {name} --image IMAGE")
    if wanted.image:
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
        wanted = dataclasses.replace(wanted, profile=default_profile(pod))
    if how.copy.name:
        pod, joined = await _copy(client, pod, wanted, how)
    else:
        joined = await _join(client, pod, wanted, quiet=how.quiet)
    if how.attached and joined:
        from syncpod.cli.commands.attached_container import stay, until_begun

        return await stay(await until_begun(client, pod, joined), joined)
    if not (how.copy.name or how.quiet):
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
    """Apply a copy of the pod; return it, and the name of its debugged container. Raises BadInput, Failure.

    The name is "" if only the images of containers differ.
    """
    from syncpod.cli.commands.debug_container import debug_copy
    from syncpod.cli.temporal.pod_apply import apply_pod, refuse_cordoned
    from syncpod.cli.temporal.pods import read_pod, require_pod

    namespace, name = pod.metadata.namespace, how.copy.name
    copy, container = debug_copy(pod, wanted, how.copy)
    taken = BadInput(f'--copy-to: there is a pod "{name}" already')
    if await read_pod(client, namespace, name) is not None:
        raise taken
    await refuse_cordoned(client, [copy.pod], pod.spec.node_name)
    if container and not (wanted.name or how.quiet):
        remark(f"Defaulting debug container name to {container}.")
    try:
        await apply_pod(client, copy.pod, node=pod.spec.node_name, creates=True)
    except AlreadyExists:
        raise taken from None
    if not how.quiet:
        say(f"pod/{name} created")
    for warning in copy.warnings:
        warn(f"pod {name}: {warning}")
    if how.copy.replace:
        await _delete(client, pod, quiet=how.quiet)
    return (await require_pod(client, namespace, name)).pod, container


async def _delete(client: Client, pod: Pod, *, quiet: bool) -> None:
    """Have a pod end without a grace period. Raises Failure."""
    from syncpod.cli.temporal.pod_deletion import request_deletion, source_notes

    deleted = await request_deletion(client, pod.metadata.namespace, pod.metadata.name, 0)
    if deleted is None:
        return
    if not quiet:
        say(f"pod/{pod.metadata.name} deleted")
    for note in source_notes(deleted):
        remark(note)
