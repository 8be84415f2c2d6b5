"""``syncpod fleet get``: the nodes, workloads, pods and objects of a fleet, as its server has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from syncpod.cli.failure import BadInput
from syncpod.cli.input.deletion_request import words_of_files
from syncpod.cli.input.fleet_names import labels_are_sealed, names_of_kinds
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
from syncpod.cli.listing import Form, read_form
from syncpod.fleet.workload_traits import KINDS, TEMPLATED, one_of

_PLURALS: Final = tuple(KINDS[each].words[1] for each in TEMPLATED)
_KNOWN = one_of(("nodes", "pods", *_PLURALS, "configmaps", "secrets", "all"))
_ALL: Final = tuple(KINDS)[::-1]
"""The kinds of `all`, as for kubectl: neither nodes nor objects."""


def get(
    what: Things = None,
    namespace: NamespaceOrFiles = "",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    output: ListOutput = "",
    watch: Watch = False,
    no_headers: NoHeaders = False,
    label_columns: LabelKeys = None,
    show_labels: ShowLabels = False,
    field_selector: FieldConditions = "",
    sort_by: SortBy = "",
    filename: Filenames = None,
    state_dir: StateDir = "",
) -> None:
    """List the fleet's nodes, workloads, or pods on all nodes: `nodes`, `deployments`, `daemonset logs`, `pods`.

    Name several kinds as `deployments,daemonsets`, or as `deployment/web pod/web-1`, or those of a manifest with `-f
    FILE`; `all` stands for pods, daemonsets and deployments. A node is `Unknown` when it has not answered the fleet for
    a grace period. Its pods may still be running.
    """
    if filename:
        from syncpod.cli.input.fleet_manifests import named_in

        what, namespace = words_of_files(what, partial(named_in, filename, namespace))
    if not what:
        raise BadInput(f"KIND: required: {_KNOWN}, or the manifest of what to list with -f")
    things = names_of_kinds(what, {**NODES, **PODS, **WORKLOADS, **OBJECTS}, _KNOWN, _ALL)
    form = read_form(
        things,
        namespace,
        all_namespaces=all_namespaces,
        selector=selector,
        field_selector=field_selector,
        output=output,
        watch=watch,
        no_headers=no_headers,
        label_columns=label_columns or [],
        show_labels=show_labels,
        sort_by=sort_by,
    )
    _refuse_sealed(
        things, form, {"--selector": selector, "--label-columns": label_columns, "--show-labels": show_labels}, sort_by
    )

    from syncpod.cli.actions.fleet_get import print_things

    print_things(things, form, state_dir)


def _refuse_sealed(
    things: Mapping[str, Sequence[str]], form: Form, for_labels: Mapping[str, object], sort_by: str
) -> None:
    """Raise BadInput if a ConfigMap or Secret is listed in a way that needs its content.

    `for_labels` are the flags that need its labels, with their values.
    """
    sealed = [kind for kind in things if kind in OBJECTS.values()]
    if form.of_documents and sealed:
        raise BadInput(
            f"--output: must be name or wide for a {sealed[0]}: its content is sealed, and only its nodes can read it"
        )
    if sealed and (flag := next((flag for flag, given in for_labels.items() if given), "")):
        raise labels_are_sealed(flag, sealed[0])
    if sealed and sort_by:
        raise BadInput(f"--sort-by: not for a {sealed[0]}: it is sealed, and only its nodes can read it")
