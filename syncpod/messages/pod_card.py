"""The part of a pod's page in the Temporal UI that is there in every state: node, images, and commands to type.

It is part of the static details, which are written once, at a pod's first start, and of each run's current details.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from syncpod.messages.identity import pod_workflow_id
from syncpod.pod import Pod
from syncpod.pod.problems import on_one_line

POD_MEMO: Final = "pod"
"""Key of a pod's memo: who sent the pod, its node and its images."""
_ADOPTION: Final = "adoption"
"""The key, in a pod's memo, of the reason why its workflow was started anew for running containers."""
_IMAGES: Final = 20
"""How many containers' images are named."""
_CLIP: Final = 255
"""The most characters of an image, or of a sender's identity."""


def pod_memo(pod: Pod, node: str, sender: str) -> Mapping[str, Any]:
    """Return the content of the memo of a pod's workflow; `sender` is an identity, "" if it is not known."""
    said = {"node": node, "images": dict(_images(pod)[:_IMAGES])}
    return {**said, "sender": sender[:_CLIP]} if sender else said


def sender_in(memo: object) -> str:
    """Return the sender in a pod's memo, on one line, since any client may have written the memo; "" if it has none."""
    sender = memo.get("sender") if isinstance(memo, Mapping) else None
    return on_one_line(sender, _CLIP) if isinstance(sender, str) else ""


class Readoption(NamedTuple):
    """Why the workflow of a pod that runs already is started anew. It is for people: no decision depends on it."""

    why: str = ""
    """How the pod's previous workflow has ended; "" = not known."""
    ends: bool = False
    """Whether it is started to end the pod."""


def with_readoption(memo: Mapping[str, Any], readoption: Readoption) -> Mapping[str, Any]:
    """Return a pod's memo that says why its workflow is started anew."""
    return {**memo, _ADOPTION: {"why": readoption.why[:_CLIP], "ends": readoption.ends}}


def readoption_in(memo: object) -> Readoption:
    """Return why the workflow was started anew, as the pod's memo has it; any client may have written that memo."""
    said = memo.get(_ADOPTION) if isinstance(memo, Mapping) else None
    if not isinstance(said, Mapping):
        return Readoption()
    why = said.get("why")
    return Readoption(on_one_line(why, _CLIP) if isinstance(why, str) else "", said.get("ends") is True)


def pod_card(pod: Pod, node: str, sender: str = "") -> str:
    """Return node, images and commands as a page of Markdown; `sender` as in `pod_memo`."""
    images = _images(pod)
    lines = [f"- node: {node}"] if node else []
    lines += [f"- sent by {sender[:_CLIP]}"] if sender else []
    lines += [f"- {name}: {image}" for name, image in images[:_IMAGES]]
    if len(images) > _IMAGES:
        lines.append(f"- {len(images) - _IMAGES} more containers")
    return "\n".join([*lines, "", "**To type**", "", *(f"- `{each}`" for each in _commands(pod))])


def _commands(pod: Pod) -> list[str]:
    meta = pod.metadata
    where = "" if meta.namespace == "default" else f" -n {meta.namespace}"
    here = f"--workflow-id {pod_workflow_id(meta.namespace, meta.name)}"
    return [
        *(f"syncpod {verb} {meta.name}{where}" for verb in ("describe pod", "explain", "history", "logs")),
        f"temporal workflow query {here} --type pod",
        f"temporal workflow metadata {here}",
        f"temporal workflow update execute {here} --name delete --input '{{}}'",
    ]


def _images(pod: Pod) -> list[tuple[str, str]]:
    spec = pod.spec
    every = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    return [(each.name, each.image[:_CLIP]) for each in every]
