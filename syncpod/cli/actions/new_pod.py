"""Checks and prints the pod that ``run`` makes, without the modules that reach a server."""

from __future__ import annotations

from typing import Any

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.manifests import Manifests
from syncpod.cli.view.documents import print_documents
from syncpod.pod import PodInvalid, admit, parse_pod


def checked_pod(document: dict[str, Any]) -> Manifests:
    """Return the pod with its defaults, as the manifests that have it alone. Raises BadInput."""
    try:
        return Manifests([admit(parse_pod(document))], [])
    except PodInvalid as wrong:
        name = document["metadata"]["name"]
        raise BadInput("\n".join(f"pod {name}: {problem}" for problem in wrong.problems)) from None


def print_new(document: dict[str, Any], output: str) -> None:
    """Print the pod of a dry run as `output` requests: ``json``, ``yaml``, ``name``, or "" for a sentence."""
    name = document["metadata"]["name"]
    if output in ("json", "yaml"):
        print_documents([document], output, single=True)
    else:
        say(f"pod/{name}" if output else f"pod/{name} created (dry run)")
