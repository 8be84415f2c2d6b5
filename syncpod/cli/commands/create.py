"""``syncpod create``: create ConfigMaps and Secrets on this machine's node."""

from __future__ import annotations

from getpass import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.api.label_selector import Selector
from syncpod.cli.commands.apply import apply_manifests, try_manifests
from syncpod.cli.console import say
from syncpod.cli.failure import AlreadyExists, BadInput, Failure
from syncpod.cli.input.arguments import read_dry_run
from syncpod.cli.input.manifest_files import standard_input
from syncpod.cli.input.manifests import Manifests, admitted
from syncpod.cli.input.options import DryRun as ManifestDryRun
from syncpod.cli.input.options import Filenames, IgnoreOtherKinds, ManifestNamespace, Namespace, Node, Recursive
from syncpod.cli.manual import Group, Page

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.pod import ConfigMap, Secret

app = typer.Typer(cls=Group, no_args_is_help=True, invoke_without_command=True)
secret_app = typer.Typer(
    cls=Group,
    help="Create a Secret.",
    no_args_is_help=True,
    epilog="Every user of this machine can read arguments with `ps`: give secret values as files, "
    "--from-file=KEY=FILE, where FILE may be /dev/stdin.",
)
app.add_typer(secret_app, name="secret")

Name = Annotated[str, typer.Argument(metavar="NAME", hidden=True, show_default=False)]
Literals = Annotated[
    list[str] | None,
    typer.Option("--from-literal", metavar="KEY=VALUE", help="A literal value; `ps` shows it to others."),
]
Files = Annotated[
    list[str] | None,
    typer.Option("--from-file", metavar="[KEY=]FILE|DIR", help="A file's content, or each file of a directory."),
]
EnvFiles = Annotated[list[str] | None, typer.Option("--from-env-file", metavar="FILE", help="Lines of NAME=value.")]
DryRun = Annotated[
    str, typer.Option("--dry-run", metavar="none|client", help="client: only print what would be created.")
]
Output = Annotated[str, typer.Option("--output", "-o", metavar="json|yaml|name", help="The output format.")]
Immutable = Annotated[bool, typer.Option("--immutable", help="Refuse any later change of its data.")]


@app.callback()
def create(
    context: typer.Context,
    filename: Filenames = None,
    namespace: ManifestNamespace = "",
    node: Node = "",
    recursive: Recursive = False,
    ignore_other_kinds: IgnoreOtherKinds = False,
    dry_run: ManifestDryRun = "none",
) -> None:
    """Create what a manifest has, or a ConfigMap or Secret.

    With -f, nothing is done if one of the objects exists already; `apply` changes existing ones. ConfigMaps and Secrets
    are for the pods of this machine. `--dry-run` is as with `apply`.
    """
    mark = read_dry_run(dry_run)
    if context.invoked_subcommand is not None:
        if filename:
            raise BadInput("either -f FILE or a kind: configmap, secret")
        if mark:
            raise BadInput(f"--dry-run: write it after the kind: create {context.invoked_subcommand} --dry-run=client")
        return
    if not filename:
        raise BadInput("name a manifest with -f FILE, or a kind: configmap, secret")

    manifests = admitted(filename, namespace, recursive=recursive, ignore_other_kinds=ignore_other_kinds)
    if existing := [*_existing_objects(manifests), *existing_pods(manifests)]:
        raise Failure("\n".join(existing))
    if mark:
        try_manifests(manifests, node, mark, asks=dry_run == "server")
        return
    apply_manifests(manifests, node, creates=True)


def existing_pods(manifests: Manifests) -> list[str]:
    """Return a sentence for each pod of the manifests that exists."""
    import asyncio

    from syncpod.cli.temporal import session

    async def work(client: Client) -> list[str]:
        from syncpod.cli.temporal.pods import read_pod

        metas = [admission.pod.metadata for admission in manifests.pods]
        found = await asyncio.gather(*(read_pod(client, meta.namespace, meta.name) for meta in metas))
        return [
            str(AlreadyExists("pods", meta.name, meta.namespace))
            for meta, fetched in zip(metas, found, strict=True)
            if fetched is not None
        ]

    return session.run(work) if manifests.pods else []


def _existing_objects(manifests: Manifests) -> list[str]:
    """Return a sentence for each ConfigMap and Secret of the manifests that exists."""
    from syncpod.cli.machine.object_store import find

    named = [(taken.object.kind, taken.object.metadata) for taken in manifests.objects]
    return [
        str(AlreadyExists(f"{kind.lower()}s", meta.name, meta.namespace))
        for kind, meta in named
        if find(kind, (meta.name,), meta.namespace, Selector())[0]
    ]


@app.command("configmap", cls=Page)
def config_map(
    name: Name,
    from_literal: Literals = None,
    from_file: Files = None,
    from_env_file: EnvFiles = None,
    immutable: Immutable = False,
    namespace: Namespace = "default",
    dry_run: DryRun = "none",
    output: Output = "",
) -> None:
    """Create a ConfigMap from literals, files or env files."""
    from syncpod.cli.input.object_sources import collected, config_map_of

    found = collected(from_literal or [], from_file or [], from_env_file or [])
    _create(config_map_of(name, namespace, found), immutable, dry_run, output)


app.command("cm", cls=Page, hidden=True)(config_map)


@secret_app.command("generic", cls=Page)
def generic(
    name: Name,
    from_literal: Literals = None,
    from_file: Files = None,
    from_env_file: EnvFiles = None,
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="The Secret's type.")] = "Opaque",
    immutable: Immutable = False,
    namespace: Namespace = "default",
    dry_run: DryRun = "none",
    output: Output = "",
) -> None:
    """Create a Secret from files, env files or literals."""
    from syncpod.cli.input.object_sources import collected, secret_of

    found = collected(from_literal or [], from_file or [], from_env_file or [])
    _create(secret_of(name, namespace, kind, found), immutable, dry_run, output)


@secret_app.command("docker-registry", cls=Page)
def docker_registry(
    name: Name,
    server: Annotated[
        str, typer.Option("--docker-server", metavar="ADDRESS", help="The registry.")
    ] = "https://index.docker.io/v1/",
    user: Annotated[str, typer.Option("--docker-username", metavar="NAME", help="The user name.")] = "",
    password: Annotated[
        str, typer.Option("--docker-password", metavar="TEXT", help="The password; `ps` shows it to others.")
    ] = "",
    password_stdin: Annotated[
        bool, typer.Option("--docker-password-stdin", help="Read the password from standard input.")
    ] = False,
    email: Annotated[str, typer.Option("--docker-email", metavar="ADDRESS", help="An e-mail address.")] = "",
    from_file: Annotated[
        str, typer.Option("--from-file", metavar="FILE", help="A docker config.json, instead of all these.")
    ] = "",
    immutable: Immutable = False,
    namespace: Namespace = "default",
    dry_run: DryRun = "none",
    output: Output = "",
) -> None:
    """Create a Secret for pulling images."""
    from syncpod.cli.input.object_sources import DOCKER_CONFIG, DOCKER_CONFIG_TYPE, docker_config, read, secret_of

    if from_file:
        if user or password or password_stdin or email:
            raise BadInput("either --from-file or the --docker- flags")
        config = read(from_file.removeprefix(f"{DOCKER_CONFIG}="), "--from-file")
    else:
        if password and password_stdin:
            raise BadInput("either --docker-password or --docker-password-stdin")
        given = _password() if password_stdin else password
        if not (user and given and server):
            raise BadInput(
                "give --docker-username and the password, by --docker-password-stdin or --docker-password, "
                "or --from-file with a docker config.json"
            )
        config = docker_config(server, user, given, email)
    _create(secret_of(name, namespace, DOCKER_CONFIG_TYPE, {DOCKER_CONFIG: config}), immutable, dry_run, output)


def _password() -> str:
    """Read a line from standard input, without echo on a terminal."""
    given = standard_input()
    if given.isatty():
        return getpass()
    return given.readline().rstrip("\r\n")


@secret_app.command("tls", cls=Page)
def tls(
    name: Name,
    cert: Annotated[str, typer.Option("--cert", metavar="FILE", help="The certificate, PEM.", show_default=False)],
    key: Annotated[str, typer.Option("--key", metavar="FILE", help="Its private key, PEM.", show_default=False)],
    immutable: Immutable = False,
    namespace: Namespace = "default",
    dry_run: DryRun = "none",
    output: Output = "",
) -> None:
    """Create a Secret from a certificate and its private key."""
    from syncpod.cli.input.object_sources import TLS_TYPE, read, require_pair, secret_of

    found = {"tls.crt": read(cert, "--cert"), "tls.key": read(key, "--key")}
    require_pair(found["tls.crt"], found["tls.key"])
    _create(secret_of(name, namespace, TLS_TYPE, found), immutable, dry_run, output)


def _create(wanted: ConfigMap | Secret, immutable: bool, dry_run: str, output: str) -> None:
    """Create an object, or only print it. Raises BadInput, and Failure if it exists already."""
    from syncpod.cli.machine.object_store import saying_what_failed, store_to_write
    from syncpod.objects import admit_object, ref_of
    from syncpod.pod import PodInvalid

    if dry_run not in ("none", "client"):
        raise BadInput(f"--dry-run: must be none or client, not {dry_run}")
    if output not in ("", "json", "yaml", "name"):
        raise BadInput(f"--output: must be json, yaml, name, not {output}")
    if immutable:
        wanted = wanted.model_copy(update={"immutable": True})
    kind, name = wanted.kind.lower(), wanted.metadata.name
    try:
        wanted = admit_object(wanted).object
    except PodInvalid as wrong:
        raise BadInput("\n".join(f"{kind} {name}: {problem}" for problem in wrong.problems)) from None
    shown: ConfigMap | Secret | None = wanted
    if dry_run == "none":
        with saying_what_failed():
            store = store_to_write()
            if not store.add(wanted):
                raise AlreadyExists(f"{kind}s", name, wanted.metadata.namespace)
            shown = store.get(ref_of(wanted))
    if shown is not None:
        _print(shown, output, dry_run)


def _print(made: ConfigMap | Secret, output: str, dry_run: str) -> None:
    kind, name = made.kind.lower(), made.metadata.name
    if output in ("json", "yaml"):
        from syncpod.cli.view.documents import print_documents
        from syncpod.pod import pod_to_wire

        print_documents([pod_to_wire(made)], output, single=True)
    elif output == "name":
        say(f"{kind}/{name}")
    else:
        say(f"{kind}/{name} created" + (" (dry run)" if dry_run == "client" else ""))
