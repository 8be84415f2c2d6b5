"""The work of ``syncpod fleet delete``: the kinds that it deletes, and the things that its words name."""

from __future__ import annotations

from typing import Final

from syncpod.cli.input.fleet_names import fleet_names
from syncpod.cli.input.kind_words import OBJECTS, PODS
from syncpod.cli.temporal.fleet_workloads import WORKLOADS
from syncpod.fleet.workload_traits import TEMPLATED, one_of

KNOWN: Final = one_of((*(each.lower() for each in TEMPLATED), "pod", "configmap", "secret"))


def named_things(words: list[str]) -> dict[str, list[str]]:
    """Return names by kind; no words mean all pods. Raises BadInput."""
    return fleet_names(words, {**WORKLOADS, **OBJECTS, **PODS}, KNOWN, bare="Pod") if words else {"Pod": []}
