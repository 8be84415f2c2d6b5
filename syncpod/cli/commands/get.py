"""``syncpod get`` and ``syncpod fleet get``: list nodes, pods, workloads, ConfigMaps and Secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import named, named_nodes, read_field_selector, read_selector, with_likely_kind
from syncpod.cli.input.contexts import OnlyFleet
from syncpod.cli.input.deletion_request import Thing
from syncpod.cli.input.fleet_names import fleet_names, labels_are_sealed
from syncpod.cli.input.kind_words import NODES, OBJECTS, PODS, WORKLOADS
from syncpod.cli.input.options import (
    AllNamespaces,
    FieldConditions,
    Filenames,
    LabelKeys,
    ListOutput,
    NamespaceOrFiles,
    NoHeaders,
    Selector,
    ShowLabels,
    SortBy,
    StateDir,
    Things,
    Watch,
)
from syncpod.cli.listing import Form, Listed
from syncpod.cli.streams import interrupts
from syncpod.cli.view.documents import is_of_documents, known_output
from syncpod.cli.view.label_columns import read_label_columns
from syncpod.cli.view.sorting import sort_path
from syncpod.fleet.workload_traits import KINDS, TEMPLATED, one_of

_Kind = TypeVar("_Kind", bound=str)
_OUTPUTS: Final = ("wide", "json", "yaml", "name")
_PLURALS: Final = tuple(KINDS[each].words[1] for each in TEMPLATED)
_KINDS_OF_FLEET: Final = one_of(("nodes", "pods", *_PLURALS, "configmaps", "secrets", "all"))
_ALL: Final = tuple(KINDS)[::-1]
"""The kinds of `all`, as for kubectl: neither nodes nor objects."""


@dataclass(frozen=True)
class GetOptions:
    """The options of `get` and `fleet get`."""

    what: Things = None
    namespace: NamespaceOrFiles = ""
    all_namespaces: AllNamespaces = False
    selector: Selector = ""
    output: ListOutput = ""
    watch: Watch = False
    no_headers: NoHeaders = False
    label_columns: LabelKeys = None
    show_labels: ShowLabels = False
    field_selector: FieldConditions = ""
    sort_by: SortBy = ""
    filename: Filenames = None
    state_dir: OnlyFleet[StateDir] = ""


def get(given: GetOptions) -> None:
    r"""List pods, nodes, or this machine's ConfigMaps and Secrets.

    Name them as with kubectl: `pod web`, `pod/web`, just `web`; `cm settings`, `secret/keys`, `nodes`; `-f FILE`.

    A JSONPath is written as with kubectl: text, and paths in braces, `{.metadata.name}{"\n"}`; for several objects,
    `{.items[*].metadata.name}`, or for each one `{range .items[*]}{.metadata.name}{"\n"}{end}`. A path has fields,
    indices, `[*]` and filters, `[?(@.type=="Ready")]`; `..`, slices and unions are not supported.
    """
    what, namespace = given.what or [], given.namespace
    if given.filename:
        from syncpod.cli.input.manifests import named_in

        what, namespace = _words_of_files(what, partial(named_in, given.filename, namespace))
    nodes = named_nodes(what)
    things: Mapping[Listed, Sequence[str]] = {"Node": nodes} if nodes is not None else dict(named(what).items())
    form = _form(given, things, namespace)
    if given.watch:
        interrupts.enable()
    if "Node" in things:
        from syncpod.cli.actions.node_listing import list_nodes as list_things
    elif set(things) == {"Pod"}:
        from syncpod.cli.actions.get import list_pods as list_things
    else:
        from syncpod.cli.actions.object_listing import list_objects as list_things
    if missing := list_things(form, things):
        raise Failure(with_likely_kind(missing, what))


def fleet_get(given: GetOptions) -> None:
    """List the fleet's nodes, workloads, or pods on all nodes: `nodes`, `deployments`, `daemonset logs`, `pods`.

    Name several kinds as `deployments,daemonsets`, or as `deployment/web pod/web-1`, or those of a manifest with `-f
    FILE`; `all` stands for pods, daemonsets and deployments. A node is `Unknown` when it has not answered the fleet for
    a grace period. Its pods may still be running.
    """
    what, namespace = given.what or [], given.namespace
    if given.filename:
        from syncpod.cli.input.fleet_manifests import named_in

        what, namespace = _words_of_files(what, partial(named_in, given.filename, namespace))
    if not what:
        raise BadInput(f"KIND: required: {_KINDS_OF_FLEET}, or the manifest of what to list with -f")
    things = fleet_names(what, {**NODES, **PODS, **WORKLOADS, **OBJECTS}, _KINDS_OF_FLEET, every=_ALL)
    form = _form(given, things, namespace)
    _refuse_sealed(given, things, form)

    from syncpod.cli.actions.fleet_get import print_things

    print_things(things, form, given.state_dir)


def _words_of_files(words: Sequence[str], files: Callable[[], Sequence[Thing]]) -> tuple[list[str], str]:
    """Return the words that name the objects of the manifests of ``-f``, and their namespace; `files` reads them.

    Raises BadInput, also for several namespaces, and if there are `words` as well.
    """
    if words:
        raise BadInput("name what to list, or give its manifest with -f, not both")
    things = files()
    namespaces = {each.namespace for each in things}
    if len(namespaces) > 1:
        raise BadInput(f"-f: is of several namespaces ({', '.join(sorted(namespaces))}): choose one with --namespace")
    return [f"{each.kind.lower()}/{each.name}" for each in things], next(iter(namespaces), "default")


def _form(given: GetOptions, things: Mapping[_Kind, Sequence[str]], namespace: str) -> Form:
    """Return the form of the list; `things` are the names of each kind. Raises BadInput."""
    output = known_output(given.output, _OUTPUTS)
    if given.watch and is_of_documents(output):
        raise BadInput(f"--watch prints tables and names, not {output.partition('=')[0]}")
    if given.watch and given.sort_by:
        raise BadInput("--sort-by: a watch prints changes in the order in which they come")
    if given.watch and len(things) > 1:
        raise BadInput("--watch works with one kind at a time")
    chosen_by = {
        "--field-selector": given.field_selector,
        "--selector": given.selector,
        "--all-namespaces": given.all_namespaces,
    }
    number = sum(map(len, things.values()))
    # As with kubectl, a name excludes --all-namespaces, since it is of one namespace; nodes have no namespace.
    flag = next((flag for flag, is_given in chosen_by.items() if is_given), "")
    if number and flag and (flag != "--all-namespaces" or set(things) != {"Node"}):
        raise BadInput(f"name what to list, or choose it with {flag}, not both")
    return Form(
        namespace=None if given.all_namespaces else namespace or "default",
        conditions=read_selector(given.selector),
        fields=read_field_selector(given.field_selector, of_pods=set(things) == {"Pod"}),
        query={"labelSelector": given.selector, "fieldSelector": given.field_selector},
        output=output,
        headers=not given.no_headers,
        labels=read_label_columns(given.label_columns or [], output, whole=given.show_labels),
        order=sort_path(given.sort_by) if given.sort_by else None,
        with_kind=len(things) > 1,
        is_named=number > 0,
        single=number == 1,
        watch=given.watch,
    )


def _refuse_sealed(given: GetOptions, things: Mapping[str, Sequence[str]], form: Form) -> None:
    """Raise BadInput if a ConfigMap or Secret of a fleet is listed in a way that needs its content or its labels."""
    sealed = next((kind for kind in things if kind in OBJECTS.values()), "")
    if not sealed:
        return
    if form.of_documents:
        raise BadInput(
            f"--output: must be name or wide for a {sealed}: its content is sealed, and only its nodes can read it"
        )
    labels = {"--selector": given.selector, "--label-columns": given.label_columns, "--show-labels": given.show_labels}
    if flag := next((flag for flag, is_given in labels.items() if is_given), ""):
        raise labels_are_sealed(flag, sealed)
    if given.sort_by:
        raise BadInput(f"--sort-by: not for a {sealed}: it is sealed, and only its nodes can read it")
