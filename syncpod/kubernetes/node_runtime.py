"""The runtime's part of a Node's status: images, handlers and features. Values in, values out.

Mirrors pkg/kubelet/nodestatus/setters.go, v1.36, Images, RuntimeHandlers, NodeFeatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

MOST_IMAGES: Final = 50
"""The kubelet's nodeStatusMaxImages; the largest images are reported."""
MOST_NAMES: Final = 5
DECLARED: Final = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
"""Features that a control plane of 1.36 permits a pod only if its node declares them. The kubelet has a fourth one,
`ExtendWebSocketsToKubelet`, which is not true here: no CRI runtime supports the protocol."""


@dataclass(frozen=True)
class Image:
    """An image on the node."""

    digests: tuple[str, ...]
    tags: tuple[str, ...]
    size: int
    """The image's size in bytes."""


@dataclass(frozen=True)
class Handler:
    """A handler of the runtime, which a RuntimeClass selects; "" is the default one."""

    name: str
    recursive_read_only_mounts: bool
    user_namespaces: bool


def of_runtime(images: Sequence[Image], handlers: Sequence[Handler], *, groups_policy: bool) -> dict[str, Any]:
    """Return the fields of a Node's status; `groups_policy`: the runtime obeys supplementalGroupsPolicy."""
    # A runtime that reports no handlers does not report its support of groups either.
    features = {"supplementalGroupsPolicy": groups_policy} if handlers or groups_policy else None
    largest = sorted(images, key=lambda each: (-each.size, each.digests, each.tags))[:MOST_IMAGES]
    return {
        "images": [{"names": [*each.digests, *each.tags][:MOST_NAMES], "sizeBytes": each.size} for each in largest],
        "runtimeHandlers": [_handler(each) for each in handlers],
        "features": features,
        "declaredFeatures": list(DECLARED),
    }


def _handler(handler: Handler) -> dict[str, Any]:
    features = {
        "recursiveReadOnlyMounts": handler.recursive_read_only_mounts,
        "userNamespaces": handler.user_namespaces,
    }
    return {"name": handler.name, "features": features}
