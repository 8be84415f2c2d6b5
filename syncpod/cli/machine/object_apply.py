"""Applies ConfigMaps and Secrets to this machine's node, after checking that it is possible; also predicts changes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncpod.cli.console import say, warn
from syncpod.cli.failure import AlreadyExists, BadInput
from syncpod.cli.machine.object_store import saying_what_failed, store_to_read, store_to_write
from syncpod.objects import ObjectRefused, ref_of, references
from syncpod.settings.worker_record import serving

if TYPE_CHECKING:
    from syncpod.cli.input.manifests import Manifests
    from syncpod.objects import Change, ObjectRef
    from syncpod.settings.node import NodeSettings


def require_possible(manifests: Manifests, here: NodeSettings, *, asked: str = "") -> None:
    """Raise BadInput, before anything is done, if ConfigMaps and Secrets cannot be applied here.

    An object is refused if it, or a pod that refers to it, belongs to another node, or if the change is not allowed.
    `asked` is the node for pods that name none; "" = this machine's.
    """
    if manifests.objects:
        _require_this_node(manifests, here, asked)
        refused = [answer.error for answer in what_would_change(manifests, here) if answer.error]
        if refused:
            raise BadInput("\n".join(refused))


@dataclass(frozen=True)
class Expected:
    """The effect that applying one object would have."""

    ref: ObjectRef
    change: Change | None
    """None if the change would be refused."""
    error: str = ""
    """Why the change would be refused; "" if it would be made."""


def what_would_change(manifests: Manifests, here: NodeSettings) -> list[Expected]:
    """Return the effect that applying each object now would have. Raises Failure."""
    found = []
    with saying_what_failed():
        store = store_to_read(here)
        for one in manifests.objects:
            try:
                found.append(Expected(ref_of(one.object), store.would_put(one.object)))
            except ObjectRefused as refused:
                found.append(Expected(ref_of(one.object), None, str(refused)))
    return found


def keep(manifests: Manifests, here: NodeSettings, *, creates: bool = False) -> None:
    """Write the ConfigMaps and Secrets, and print the result of each as kubectl does.

    Raises Failure for an error of the file system; with `creates`, AlreadyExists for the first object that exists.
    """
    if not manifests.objects:
        return
    with saying_what_failed():
        store = store_to_write(here)
        for wanted, warnings in manifests.objects:
            ref = ref_of(wanted)
            if creates and not store.add(wanted):
                raise AlreadyExists(f"{ref.kind.lower()}s", ref.name, ref.namespace)
            say(f"{ref.kind.lower()}/{ref.name} {'created' if creates else store.put(wanted)}")
            for warning in warnings:
                warn(f"{ref.kind.lower()} {ref.name}: {warning}")


def _require_this_node(manifests: Manifests, here: NodeSettings, asked: str) -> None:
    own = _node_of(here)
    why = f"configmaps and secrets are kept on their node itself, and {here.state_dir} is node {own}'s"
    if asked and asked != own:
        raise BadInput(f"--node {asked}: {why}: apply them there")
    given = {ref_of(one.object) for one in manifests.objects}
    for pod in (admission.pod for admission in manifests.pods):
        needed = [one for one in references(pod) if one.ref in given]
        if needed and pod.spec.node_name not in ("", own):
            raise BadInput(
                f"pod {pod.metadata.name}: spec.nodeName: is {pod.spec.node_name}, but {needed[0].path} names "
                f"{needed[0].ref}; {why}: apply both there"
            )


def _node_of(here: NodeSettings) -> str:
    """Return the node of a state directory: the one that it serves or last served, else this machine's."""
    worker = serving(here.state_dir)
    if worker is not None:
        return worker.node
    try:
        return str(json.loads((here.state_dir / "node.json").read_text())["node"])
    except (OSError, ValueError, KeyError, TypeError):
        return here.node
