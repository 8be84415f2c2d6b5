"""``syncpod create``: create ConfigMaps and Secrets on this machine's node."""

from __future__ import annotations

from getpass import getpass
from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import read_dry_run
from syncpod.cli.input.options import DryRun as ManifestDryRun
from syncpod.cli.input.options import Filenames, IgnoreOtherKinds, ManifestNamespace, Namespace, Node, Recursive
from syncpod.cli.manual import Group, Page
from syncpod.cli.standard_streams import standard_input

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
    from syncpod.cli.input.manifests import admitted

    manifests = admitted(filename, namespace, recursive=recursive, ignore_other_kinds=ignore_other_kinds)
    from syncpod.cli.actions.create import create_manifests, try_creation

    if mark:
        try_creation(manifests, node, mark, asks=dry_run == "server")
    else:
        create_manifests(manifests, node)


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
    from syncpod.cli.actions.create_object import create_object
    from syncpod.cli.input.object_sources import collected, config_map_of

    found = collected(from_literal or [], from_file or [], from_env_file or [])
    create_object(config_map_of(name, namespace, found), immutable, dry_run, output)


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
    from syncpod.cli.actions.create_object import create_object
    from syncpod.cli.input.object_sources import collected, secret_of

    found = collected(from_literal or [], from_file or [], from_env_file or [])
    create_object(secret_of(name, namespace, kind, found), immutable, dry_run, output)


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
    from syncpod.cli.actions.create_object import create_object
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
    create_object(secret_of(name, namespace, DOCKER_CONFIG_TYPE, {DOCKER_CONFIG: config}), immutable, dry_run, output)


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
    from syncpod.cli.actions.create_object import create_object
    from syncpod.cli.input.object_sources import TLS_TYPE, read, require_pair, secret_of

    found = {"tls.crt": read(cert, "--cert"), "tls.key": read(key, "--key")}
    require_pair(found["tls.crt"], found["tls.key"])
    create_object(secret_of(name, namespace, TLS_TYPE, found), immutable, dry_run, output)
