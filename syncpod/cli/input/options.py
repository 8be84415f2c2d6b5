"""Options that several commands share, with kubectl's names and meanings."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from syncpod.cli.input.arguments import in_lower_case, node_name
from syncpod.cli.input.flags import listed


def kinds_of(words: Any) -> Any:
    """Return arguments with the words for kinds in lower case; None, for no arguments, stays as it is."""
    return in_lower_case(words) if words else words


def kind_of(word: Any) -> Any:
    """Return one argument, ``KIND/NAME`` or ``NAME``, with its kind in lower case."""
    return in_lower_case(["", word])[1] if word else word


def node_of(word: Any) -> Any:
    """Return the node of ``--node``, also of ``node/NAME``; "" for none. Raises BadInput."""
    return node_name(kind_of(word)) if word else word


def _default_for_empty(context: typer.Context, parameter: typer.CallbackParam, namespace: str) -> str:
    """Return the namespace; as with kubectl, ``-n ''`` is ``-n default``. A flag that is not given keeps its default.

    An unset variable of a shell, ``prune --all -n "$NS"``, shall not mean all namespaces.
    """
    source = context.get_parameter_source(str(parameter.name))
    return namespace or ("default" if source and source.name == "COMMANDLINE" else "")


NodeNames = Annotated[list[str], typer.Argument(metavar="NODE", hidden=True, show_default=False, callback=kinds_of)]
NodesIfAny = Annotated[
    list[str] | None, typer.Argument(metavar="NODE", hidden=True, show_default=False, callback=kinds_of)
]
PodNames = Annotated[
    list[str] | None, typer.Argument(metavar="POD", hidden=True, show_default=False, callback=kinds_of)
]
"""Pods in kubectl's ways of naming them: ``web``, ``pod web``, ``pod/web``."""
PodName = Annotated[str, typer.Argument(metavar="POD", hidden=True, show_default=False, callback=kind_of)]
"""One pod: ``web`` or ``pod/web``."""
InnerCommand = Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", hidden=True, show_default=False)]
"""The command to run in a container: the words after ``--``."""
ForwardedPorts = Annotated[
    list[str] | None, typer.Argument(metavar="[LOCAL:]REMOTE...", hidden=True, show_default=False)
]
LocalAddresses = Annotated[
    list[str] | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="Addresses to listen on, with commas or repeated.",
        show_default="localhost",
    ),
]
Things = Annotated[
    list[str] | None, typer.Argument(metavar="KIND NAME", hidden=True, show_default=False, callback=kinds_of)
]
"""Pods, ConfigMaps and Secrets in kubectl's ways of naming them: ``web``, ``cm settings``, ``secret/keys``."""
Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", help="The namespace.", callback=_default_for_empty),
]
NamespaceOrFiles = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", help="The namespace.", show_default="default; with -f, theirs"),
]
"""The namespace, in commands that take names or manifests; "" = the flag is not given."""
NamespaceOfAll = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="The namespace.",
        callback=_default_for_empty,
        show_default="default; all with --all",
    ),
]
"""The namespace, in commands whose ``--all`` means the whole node."""
OnlyNames = Annotated[str, typer.Option("--output", "-o", metavar="name", help="Print only the names.")]
OnlyJson = Annotated[str, typer.Option("--output", "-o", metavar="json", help="The output format.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
Selector = Annotated[
    str, typer.Option("--selector", "-l", metavar="SELECTOR", help="Select by labels: 'app=web,tier in (a,b),!old'.")
]
FieldConditions = Annotated[
    str,
    typer.Option(
        "--field-selector", metavar="SELECTOR", help="Select by fields: 'status.phase=Running,spec.nodeName!=n1'."
    ),
]
ListOutput = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="wide|json|yaml|name|jsonpath='{PATH}'|custom-columns=NAME:PATH",
        help="The output format.",
    ),
]
SortBy = Annotated[
    str, typer.Option("--sort-by", metavar="FIELD", help="Sort by this field: .metadata.creationTimestamp.")
]
LabelKeys = Annotated[
    list[str] | None,
    typer.Option("--label-columns", "-L", metavar="KEY,...", help="Show these labels as columns."),
]
ShowLabels = Annotated[bool, typer.Option("--show-labels", help="Show all labels in the last column.")]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Do not print the column names.")]
Watch = Annotated[
    bool,
    typer.Option("--watch", "-w", help="Keep watching: a terminal draws the table again, else each change is a line."),
]
Filenames = Annotated[
    list[str] | None,
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE|DIR|-",
        help="A manifest, a directory of them, or standard input; several with commas or repeated.",
        callback=listed,
    ),
]
Recursive = Annotated[bool, typer.Option("--recursive", "-R", help="Also read the directories in a directory.")]
Kustomize = Annotated[
    str, typer.Option("--kustomize", "-k", metavar="DIR", help="Not read here: pipe `kubectl kustomize DIR` into -f -.")
]
IgnoreOtherKinds = Annotated[
    bool, typer.Option("--ignore-other-kinds", help="Leave out what is not a Pod, ConfigMap or Secret.")
]
ManifestNamespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="The namespace of documents that name none; else `default`.",
        show_default=False,
    ),
]
Node = Annotated[
    str,
    typer.Option(
        "--node",
        metavar="NAME",
        help="The node for pods that name none.",
        envvar="SYNCPOD_NODE",
        show_envvar=False,
        show_default="this host",
    ),
]
StateDir = Annotated[
    str,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="Where server and worker keep their state.",
        envvar="SYNCPOD_STATE_DIR",
        show_envvar=False,
        show_default="/var/lib/syncpod as root",
    ),
]
Timeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="How long to wait: 30s, 5m; 0 = without limit.")
]
UntilUp = Annotated[bool, typer.Option("--wait", help="Wait until every pod is ready or has finished.")]
AllOfKind = Annotated[bool, typer.Option("--all", help="All of that kind in the namespace.")]
UntilGone = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until they are gone.")]
IgnoreNotFound = Annotated[bool, typer.Option("--ignore-not-found", help="Do not fail for what does not exist.")]
GracePeriod = Annotated[
    int,
    typer.Option(
        "--grace-period", metavar="SECONDS", help="Grace period, instead of the pod's own.", show_default="its own"
    ),
]
DryRun = Annotated[str, typer.Option("--dry-run", metavar="none|client|server", help="Only print what would be done.")]
Container = Annotated[str, typer.Option("--container", "-c", metavar="NAME", help="The container.")]
ServerPort = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        min=1,
        max=65535,
        help="The port of the Temporal server.",
        show_default="its last one, 7233, or the next free",
    ),
]
ServerUi = Annotated[bool, typer.Option("--ui", help="Serve the Temporal UI. Without this, root's server serves none.")]
ServerUiPort = Annotated[
    int | None,
    typer.Option(
        "--ui-port",
        metavar="PORT",
        min=1,
        max=65535,
        help="The port of its UI.",
        show_default="its last one, 8233, or the next free",
    ),
]
ServerGuard = Annotated[
    bool,
    typer.Option("--guard", help="As root: have the kernel let only root connect to the Temporal server's ports."),
]
OfNode = Annotated[
    str,
    typer.Option(
        "--node",
        metavar="NODE",
        help="The pod's node; required if the fleet has not placed the pod.",
        show_default="where the fleet has placed it",
        callback=node_of,
    ),
]
OurStdin = Annotated[
    bool, typer.Option("--stdin", "-i", help="Keep its stdin open; while attached, it reads our input.")
]
OurTerminal = Annotated[bool, typer.Option("--tty", "-t", help="Give it a terminal.")]
AttachUntilEnd = Annotated[
    bool | None, typer.Option("--attach/--no-attach", help="Attach to it until it ends.", show_default="with -i")
]
