"""Adds a debug container to a running pod, or to a copy of it, and attaches to the container."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncpod.cli.actions.attached_container import stay, until_begun
from syncpod.cli.actions.debug_container import debug_container, debug_copy, default_profile, require_image_name
from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import AlreadyExists, BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.kind_words import NODE_WORDS
from syncpod.cli.machine.runtime_client import runtime_of
from syncpod.cli.standard_streams import standard_input
from syncpod.cli.streams.own_terminal import has_terminal
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_apply import apply_pod, refuse_cordoned
from syncpod.cli.temporal.pod_deletion import request_deletion, source_notes
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.updates import send_update
from syncpod.pod import pod_to_wire

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.actions.debug_container import CopyRequest, DebugRequest
    from syncpod.pod import Pod


@dataclass(frozen=True)
class Debugging:
    """Which pod gets the debug container, and whether we attach to the container."""

    attached: bool
    """Whether we attach to the container until it ends."""
    is_attach_given: bool
    """Whether ``--attach`` is given, rather than implied by ``--stdin``."""
    copy: CopyRequest
    quiet: bool
    """Whether only the container's output is printed."""


def debug_pod(pod: str, namespace: str, wanted: DebugRequest, how: Debugging) -> int:
    """Debug a pod; return the container's exit code if we attach, else 0.

    Raises BadInput, with the flag, for what cannot be done, and Failure.
    """
    _require_copy(how.copy)
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
    return session.run(lambda client: _debug(client, namespace, name, wanted, how))


def _require_copy(copy: CopyRequest) -> None:
    """Raise BadInput for a flag that only a copy can have, if no copy is requested. The error names the flag."""
    if copy.name:
        return
    if copy.share_processes is not None:
        flag = "--share-processes" if copy.share_processes else "--no-share-processes"
        raise BadInput(f"{flag} needs --copy-to: for a running pod it cannot be changed")
    names = {"livenessProbe": "liveness", "readinessProbe": "readiness", "startupProbe": "startup"}
    given = {
        "--set-image": bool(copy.images),
        "--replace": copy.replace,
        "--same-node": copy.is_same_node_given,
        "--keep-init-containers": copy.init_containers is True,
        "--no-keep-init-containers": copy.init_containers is False,
        **{f"--keep-{names.get(field, field)}": True for field in sorted(copy.kept)},
    }
    for flag, is_given in given.items():
        if is_given:
            raise BadInput(f"{flag} needs --copy-to")


def _require_sense(name: str, wanted: DebugRequest, how: Debugging) -> None:
    """Raise BadInput for flags that do not go together, or if nothing is to be debugged.

    Mirrors cmd/debug/debug.go, v1.36, Validate.
    """
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


async def _debug(client: Client, namespace: str, name: str, wanted: DebugRequest, how: Debugging) -> int:
    """Add the container to the pod, or to a copy of it; return its exit code if we attach, else 0."""
    pod = (await TemporalPods(client).required(namespace, name)).pod
    if how.attached:
        runtime_of(pod)  # refuse a pod of another node before changing anything
    if not wanted.profile:
        wanted = dataclasses.replace(wanted, profile=default_profile(pod))
    if how.copy.name:
        pod, joined = await _copy(client, pod, wanted, how)
    else:
        joined = await _join(client, pod, wanted, quiet=how.quiet)
    if how.attached and joined:
        return await stay(await until_begun(client, pod, joined), joined)
    if not (how.copy.name or how.quiet):
        say(f'ephemeral container "{joined}" joined pod "{name}"')
    return 0


async def _join(client: Client, pod: Pod, wanted: DebugRequest, *, quiet: bool) -> str:
    """Add an ephemeral container to the pod; return its name. Raises BadInput, Failure."""
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


async def _copy(client: Client, pod: Pod, wanted: DebugRequest, how: Debugging) -> tuple[Pod, str]:
    """Apply a copy of the pod; return it, and the name of its debugged container. Raises BadInput, Failure.

    The name is "" if only the images of containers differ.
    """
    namespace, name = pod.metadata.namespace, how.copy.name
    copy, container = debug_copy(pod, wanted, how.copy)
    taken = BadInput(f'--copy-to: there is a pod "{name}" already')
    if await TemporalPods(client).read(namespace, name) is not None:
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
    return (await TemporalPods(client).required(namespace, name)).pod, container


async def _delete(client: Client, pod: Pod, *, quiet: bool) -> None:
    """Have a pod end without a grace period. Raises Failure."""
    deleted = await request_deletion(client, pod.metadata.namespace, pod.metadata.name, 0)
    if deleted is None:
        return
    if not quiet:
        say(f"pod/{pod.metadata.name} deleted")
    for note in source_notes(deleted):
        remark(note)
