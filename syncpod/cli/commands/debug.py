"""``syncpod debug``: add a debug container to a running pod, or to a copy of it."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.options import AttachUntilEnd, InnerCommand, Namespace, OurStdin, OurTerminal, PodName

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
    from syncpod.cli.actions.debug import Debugging, debug_pod
    from syncpod.cli.actions.debug_container import CopyRequest, DebugRequest, images_of

    wanted = DebugRequest(
        image=image, name=container, target=target, command=tuple(command or ()), arguments_only=arguments_only,
        env=tuple(env or ()), pull_policy=image_pull_policy, profile=profile, stdin=stdin, tty=tty,
    )  # fmt: skip
    probes = {"livenessProbe": keep_liveness, "readinessProbe": keep_readiness, "startupProbe": keep_startup}
    kept = {"labels": keep_labels, "annotations": keep_annotations, **probes}
    copy = CopyRequest(
        copy_to,
        images_of(set_image or ()),
        share_processes,
        replace,
        frozenset(field for field, keeps in kept.items() if keeps),
        init_containers=keep_init_containers,
        is_same_node_given=same_node,
    )
    how = Debugging(stdin if attach is None else attach, is_attach_given=bool(attach), copy=copy, quiet=quiet)
    raise typer.Exit(debug_pod(pod, namespace, wanted, how))
