"""The pod addresses that the cluster assigns to a node are sent to the runtime, once each."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.agent.kubernetes.pod_cidr import PodCidr, pod_cidr
from syncpod.cri.errors import CriError


class Runtime:
    """A runtime that records the received configuration, and may refuse it."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.refuses = False

    async def update_runtime_config(self, *, pod_cidr: str) -> None:
        if self.refuses:
            raise CriError("update_runtime_config", "INTERNAL", "no template")
        self.given.append(pod_cidr)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, ""),
        ({"podCIDR": "10.1.0.0/24"}, "10.1.0.0/24"),
        ({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]}, "10.1.0.0/24,fd00::/64"),
        (None, ""),
    ],
)
def test_the_ranges_of_a_node_are_one_text(spec: Any, said: str) -> None:
    assert pod_cidr({"spec": spec}) == said


async def test_a_change_is_passed_on_once_and_a_refusal_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    runtime = Runtime()
    node: dict[str, Any] = {"spec": {}}
    passing = PodCidr(runtime, lambda: node)  # type: ignore[arg-type]
    await passing.look()
    node["spec"] = {"podCIDR": "10.1.0.0/24"}
    runtime.refuses = True
    for _ in range(3):
        await passing.look()
    assert runtime.given == [] and caplog.text.count("no template") == 1
    runtime.refuses = False
    for _ in range(3):
        await passing.look()
    node["spec"] = {"podCIDR": "10.2.0.0/24"}
    await passing.look()
    assert runtime.given == ["10.1.0.0/24", "10.2.0.0/24"]
