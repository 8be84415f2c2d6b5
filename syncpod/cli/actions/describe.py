"""Describes pods: this machine's worker makes the text, or without one this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from syncpod.cli.console import remark
from syncpod.cli.description import Descriptions
from syncpod.cli.failure import Failure
from syncpod.cli.input.arguments import with_likely_kind
from syncpod.cli.machine.own_journal import missing
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import running_server
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import note_orphans

if TYPE_CHECKING:
    from syncpod.api.client import Reply
    from syncpod.cli.input.kind_words import Kind


def describe_pods(things: Mapping[Kind, Sequence[str]], namespace: str, selector: str, words: Sequence[str]) -> None:
    """Describe the pods among these things. Raises Failure for those that do not exist.

    `words` are the arguments that name the things.
    """
    descriptions = Descriptions()
    absent = show_descriptions(descriptions, things["Pod"], namespace, selector)
    end_descriptions(descriptions, absent, namespace, words)


def show_descriptions(descriptions: Descriptions, names: Sequence[str], namespace: str, selector: str) -> list[str]:
    """Print the description of each pod; return a message for each that does not exist. Raises Failure."""

    def described(reply: Reply, reports: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], Sequence[str]]:
        return [one["description"] for one in reports], reply.warnings

    with NodeApi() as api:
        query = [("labelSelector", selector), ("workflows", _pages(*api.server))]
        found, notes = api.reports(namespace, names, "description", query=query, read=described)
        note_orphans(found)
        for note in notes:
            remark(f"Note: {note}")
        absent = sorted(set(names) - {each["metadata"]["name"] for each in found})
        messages = [missing(api.server, namespace, name) for name in absent]
    for each in found:
        descriptions.show(each["lines"])
    return messages


def end_descriptions(descriptions: Descriptions, absent: Sequence[str], namespace: str, words: Sequence[str]) -> None:
    """Raise one Failure if things do not exist, with these messages; print a remark if there was nothing to describe.

    `words` are the arguments that name the things; the first one may be a misspelt kind.
    """
    if absent:
        descriptions.failures.append(Failure(with_likely_kind(absent, words)))
    descriptions.end(f"No resources found in {namespace} namespace.")


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
