"""The work of ``syncpod describe``: details of pods, nodes, ConfigMaps, and of Secrets without their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from syncpod.cli.console import remark
from syncpod.cli.machine.object_store import find
from syncpod.cli.machine.own_journal import missing
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import running_server
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import note_orphans
from syncpod.cli.view.data_objects import describe as lines_of

if TYPE_CHECKING:
    from syncpod.api.client import Reply
    from syncpod.api.label_selector import Selector as Conditions
    from syncpod.objects import Kind as ObjectKind


def describe_objects(
    kind: ObjectKind, names: Sequence[str], namespace: str, conditions: Conditions
) -> tuple[list[list[str]], list[str]]:
    """Return the lines of each object, and a message for each that does not exist."""
    found, missing = find(kind, names, namespace, conditions)
    return [lines_of(one) for one in found], missing


def describe_pods(names: Sequence[str], namespace: str, selector: str) -> tuple[list[list[str]], list[str]]:
    """Return the lines of each pod, and a message for each that does not exist."""

    def described(reply: Reply, reports: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], Sequence[str]]:
        return [one["description"] for one in reports], reply.warnings

    with NodeApi() as api:
        query = [("labelSelector", selector), ("workflows", _pages(*api.server))]
        found, notes = api.reports(namespace, names, "description", query=query, read=described)
        note_orphans(found)
        for note in notes:
            remark(f"Note: {note}")
        absent = sorted(set(names) - {each["metadata"]["name"] for each in found})
        return [each["lines"] for each in found], [missing(api.server, namespace, name) for name in absent]


def _pages(address: str, namespace: str) -> str:
    """Return the address of the workflows' pages in the UI of our own server or of Temporal Cloud; "" = unknown."""
    own = running_server(settings().state_dir)
    if own is not None and own.address == address:
        base = own.ui
    elif address.rpartition(":")[0].endswith(".tmprl.cloud"):
        base = "https://cloud.temporal.io"
    else:
        base = ""
    return f"{base}/namespaces/{namespace}/workflows" if base else ""
