"""The inventory of a node: its pods, and objects that belong to no pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from syncpod.cri.port import ContainerSummary, CriRuntime, SandboxSummary
from syncpod.node.inventory import take_inventory
from syncpod.translation import names

OF_THE_POD = {
    names.POD_NAMESPACE_LABEL: "default",
    names.POD_NAME_LABEL: "web",
    names.POD_UID_LABEL: "u1",
    names.CONTAINER_NAME_LABEL: "main",
}
NO_PODS_NUMBER = 2**32 - 1


class Lists:
    """A runtime that answers only two lists."""

    def __init__(self, sandboxes: Mapping[str, int], containers: Mapping[str, tuple[str, int]]) -> None:
        """Take sandboxes' attempts by id, and containers' sandboxes and numbers by id, all of one pod."""
        self._sandboxes = tuple(
            SandboxSummary(id_, number, "u1", "web", "default", "SANDBOX_READY", None, OF_THE_POD, {}, "")
            for id_, number in sandboxes.items()
        )
        self._containers = tuple(
            ContainerSummary(id_, home, "main", number, "running", None, "", "", OF_THE_POD, {})
            for id_, (home, number) in containers.items()
        )

    async def list_pod_sandboxes(self, *, labels: Mapping[str, str]) -> tuple[SandboxSummary, ...]:
        return self._sandboxes

    async def list_containers(self, *, labels: Mapping[str, str]) -> tuple[ContainerSummary, ...]:
        return self._containers


async def test_a_container_with_an_invalid_number_belongs_to_no_pod_despite_its_labels() -> None:
    """It could be ended only by its id, never with its pod."""
    lists = Lists({"s": 0, "odd": NO_PODS_NUMBER}, {"c": ("s", 1), "raw": ("s", NO_PODS_NUMBER), "in": ("odd", 7)})
    found = await take_inventory(cast(CriRuntime, lists), "n", {})
    pod = found.pods["u1"]
    assert ([each.id for each in pod.sandboxes], [each.id for each in pod.containers]) == (["s"], ["c", "in"])
    assert [(each.kind, each.id, each.uid) for each in found.nameless] == [
        ("sandbox", "odd", ""),
        ("container", "raw", "u1"),
    ]
