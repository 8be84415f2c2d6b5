"""``syncpod fleet get``: the nodes, workloads, pods and objects of a fleet, as its server has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.fleet_names import names_of_kinds
from syncpod.cli.input.kind_words import NODES, OBJECTS, PODS, WORKLOADS
from syncpod.cli.input.options import (
    AllNamespaces,
    FieldConditions,
    LabelKeys,
    ListOutput,
    Namespace,
    NoHeaders,
    Selector,
    ShowLabels,
    SortBy,
    StateDir,
    Watch,
)
from syncpod.cli.listing import Form, read_form
from syncpod.fleet.workload_traits import KINDS, TEMPLATED, one_of

_PLURALS: Final = tuple(KINDS[each].words[1] for each in TEMPLATED)
_KNOWN = one_of(("nodes", "pods", *_PLURALS, "configmaps", "secrets", "all"))
_ALL: Final = tuple(KINDS)[::-1]
"""The kinds of `all`, as for kubectl: neither nodes nor objects."""


def get(
    what: Annotated[list[str], typer.Argument(metavar="KIND NAME", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    output: ListOutput = "",
    watch: Watch = False,
    no_headers: NoHeaders = False,
    label_columns: LabelKeys = None,
    show_labels: ShowLabels = False,
    field_selector: FieldConditions = "",
    sort_by: SortBy = "",
    state_dir: StateDir = "",
) -> None:
    """List the fleet's nodes, workloads, or pods on all nodes: `nodes`, `deployments`, `daemonset logs`, `pods`.

    Name several kinds as `deployments,daemonsets`, or as `deployment/web pod/web-1`; `all` stands for pods, daemonsets
    and deployments. A node is `Unknown` when it has not answered the fleet for a grace period. Its pods may still be
    running.
    """
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
        raise BadInput(f"{flag}: not for a {sealed[0]}: its labels are sealed, and only its nodes can read them")
    if sealed and sort_by:
        raise BadInput(f"--sort-by: not for a {sealed[0]}: it is sealed, and only its nodes can read it")
