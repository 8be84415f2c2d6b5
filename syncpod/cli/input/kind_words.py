"""kubectl's words for the kinds that a node and a fleet have: the full name, the plural and the short one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from syncpod.fleet.workload_traits import KINDS, TEMPLATED

Kind = Literal["Pod", "ConfigMap", "Secret"]
"""The kinds of objects that a node's commands handle."""

POD_WORDS: Final = ("pod", "pods", "po")
NODE_WORDS: Final = ("node", "nodes", "no")
CONFIG_MAP_WORDS: Final = ("configmap", "configmaps", "cm")
SECRET_WORDS: Final = ("secret", "secrets")

PODS: Final[Mapping[str, Kind]] = dict.fromkeys(POD_WORDS, "Pod")
NODES: Final[Mapping[str, str]] = dict.fromkeys(NODE_WORDS, "Node")
OBJECTS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(CONFIG_MAP_WORDS, "ConfigMap"),
    **dict.fromkeys(SECRET_WORDS, "Secret"),
}
"""Words for ConfigMaps and Secrets."""
WORKLOADS: Final[Mapping[str, str]] = {
    word + group: kind for kind in TEMPLATED for word in KINDS[kind].words for group in ("", f".{KINDS[kind].group}")
}
"""Words for the workloads of a fleet."""
