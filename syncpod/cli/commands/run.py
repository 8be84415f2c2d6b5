"""``syncpod run``: make a pod of one container."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import read_timeout
from syncpod.cli.input.options import AttachUntilEnd, Namespace, Node, OurStdin, OurTerminal, Timeout
from syncpod.cli.standard_streams import standard_input
from syncpod.cli.streams.own_terminal import has_terminal

Words = Annotated[list[str] | None, typer.Argument(metavar="NAME [-- ARG...]", show_default=False, hidden=True)]
_RESTARTS = ("Always", "OnFailure", "Never")


Image = Annotated[str, typer.Option("--image", metavar="IMAGE", help="The image.")]
Env = Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable.")]
Labels = Annotated[
    str, typer.Option("--labels", "-l", metavar="KEY=VALUE,...", help="Labels.", show_default="run=NAME")
]
Port = Annotated[int, typer.Option("--port", metavar="PORT", help="The port that it serves.", show_default=False)]
IsCommand = Annotated[bool, typer.Option("--command", help="The words after -- are the command, not its arguments.")]
Restart = Annotated[
    str,
    typer.Option(
        "--restart",
        metavar="Always|OnFailure|Never",
        help="The restart policy.",
        show_default="Always, or Never with --rm",
    ),
]
PullPolicy = Annotated[
    str, typer.Option("--image-pull-policy", metavar="Always|IfNotPresent|Never", help="When to pull the image.")
]
Remove = Annotated[bool, typer.Option("--rm", help="Delete the pod when what we have attached to has ended.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is ready or has finished.")]
ClientDryRun = Annotated[
    str, typer.Option("--dry-run", metavar="none|client", help="client: only print what would be made.")
]
OutputOfDryRun = Annotated[
    str, typer.Option("--output", "-o", metavar="json|yaml|name", help="The output format of a dry run.")
]


def run(
    words: Words = None,
    image: Image = "",
    env: Env = None,
    labels: Labels = "",
    port: Port = 0,
    command: IsCommand = False,
    restart: Restart = "",
    image_pull_policy: PullPolicy = "",
    stdin: OurStdin = False,
    tty: OurTerminal = False,
    attach: AttachUntilEnd = None,
    remove: Remove = False,
    namespace: Namespace = "default",
    node: Node = "",
    wait: Wait = False,
    timeout: Timeout = "5m",
    dry_run: ClientDryRun = "none",
    output: OutputOfDryRun = "",
) -> None:
    """Make a pod of one container, and run it.

    Arguments after `--` are those of the image's command; with --command they are the command itself. `attach` and
    `logs` show its output; `exec` runs something beside it. With `-i` or --attach, this command attaches to the
    container until it ends, and passes on its exit code; with --rm the pod is then deleted.

    \b
    Examples:
      syncpod run web --image nginx --port 80
      syncpod run shell -it --rm --image busybox -- sh
    """  # noqa: D301
    if not words or not image:
        raise BadInput("name the pod and its image: syncpod run NAME --image IMAGE")
    # Difference: with --rm, kubectl's default is Always too, so the container would run again before it is deleted.
    restart = restart or ("Never" if remove else "Always")
    _check(restart, dry_run, output)
    is_attached = stdin if attach is None else attach
    _check_streams(stdin=stdin, tty=tty, is_attached=is_attached, remove=remove, wait=wait)
    if stdin and is_attached and dry_run == "none":
        standard_input()  # raises if our input is closed, before the pod is made
    tty = tty and (not is_attached or has_terminal(stdin=stdin))
    name, *rest = words
    # With a terminal, stdinOnce is not set, since a terminal may attach again.
    streams = {"stdin": stdin, "tty": tty, "stdinOnce": stdin and is_attached and not tty}
    container = _container(rest, streams, command=command, env=env or [], port=port, pull_policy=image_pull_policy)
    document = _document(name, image, container, namespace=namespace, labels=labels, restart=restart)
    from syncpod.cli.actions.new_pod import checked_pod, print_new

    manifests = checked_pod(document)
    if dry_run == "client":
        print_new(document, output)
    elif is_attached:
        from syncpod.cli.actions.run import run_attached

        raise typer.Exit(run_attached(manifests, node, remove=remove))
    else:
        from syncpod.cli.actions.create import create_manifests

        create_manifests(manifests, node, read_timeout(timeout), wait=wait)


def _container(
    words: list[str], streams: dict[str, bool], *, command: bool, env: list[str], port: int, pull_policy: str
) -> dict[str, Any]:
    """Return the fields of the container, but its name and image. Raises BadInput for a wrong variable."""
    return {
        "command" if command else "args": words,
        "env": [_variable(each) for each in env],
        "ports": [{"containerPort": port}] if port else [],
        "imagePullPolicy": pull_policy,
        **streams,
    }


def _document(
    name: str, image: str, container: dict[str, Any], *, namespace: str, labels: str, restart: str
) -> dict[str, Any]:
    """Return the Pod; fields of `container` that are empty are left out. Raises BadInput for wrong labels."""
    given = {field: value for field, value in container.items() if value}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": _labels(labels) or {"run": name}},
        "spec": {"containers": [{"name": name, "image": image} | given], "restartPolicy": restart},
    }


def _check(restart: str, dry_run: str, output: str) -> None:
    """Raise BadInput for a flag whose value is not one of its choices."""
    if restart not in _RESTARTS:
        raise BadInput(f"--restart: must be {', '.join(_RESTARTS)}, not {restart}")
    if dry_run not in ("none", "client"):
        raise BadInput(f"--dry-run: must be none or client, not {dry_run}")
    if output not in ("", "json", "yaml", "name") or (output and dry_run == "none"):
        raise BadInput("--output: needs --dry-run=client, and must be json, yaml or name")


def _check_streams(*, stdin: bool, tty: bool, is_attached: bool, remove: bool, wait: bool) -> None:
    """Raise BadInput for flags about attaching that do not go together."""
    if remove and not is_attached:
        raise BadInput("--rm: only with -i or --attach, since the pod is deleted when what we attach to has ended")
    if tty and not stdin:
        raise BadInput("--tty: needs --stdin (-it)")
    if is_attached and wait:
        raise BadInput("either --wait or --attach")


def _variable(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise BadInput(f"--env: {text!r}: write NAME=VALUE")
    return {"name": name, "value": value}


def _labels(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part]
    if wrong := [name for name, equals, _ in pairs if not name or not equals]:
        raise BadInput(f"--labels: {wrong[0]!r}: write KEY=VALUE, with commas between them")
    return {name: value for name, _, value in pairs}
