"""Pods with images from a hostile registry can be deleted and delay no other pod."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.engine import PATIENCE, EngineNode, Pods, shell, status_of
from tests.runtimes.containerd import Containerd
from tests.runtimes.docker_registry import announce
from tests.runtimes.hostile_registry import SHOUTED, HostileRegistry
from tests.runtimes.selection import ALIKE

_LONGEST = 4096
"""The largest number of characters of a message in a pod's status."""

pytestmark = pytest.mark.parametrize("runtime", ALIKE, indirect=True, scope="session")


@pytest.fixture
def registry(engine: EngineNode) -> Iterator[HostileRegistry]:
    """A hostile registry that the runtime is configured to use."""
    with HostileRegistry() as registry:
        assert isinstance(engine.runtime, Containerd)
        announce(engine.runtime, registry.address)
        yield registry


def from_registry(registry: HostileRegistry, harm: str) -> dict[str, Any]:
    return {"name": "main", "image": f"{registry.address}/{harm}/app:1", "command": ["sh"]}


def waiting(pod: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = status_of(pod, "main").get("state", {}).get("waiting", {})
    return found


@pytest.mark.parametrize("harm", ["shouts", "goes-in-circles", "lies"])
async def test_a_harmful_answer_fails_the_pull_and_its_words_stay_short(
    pods: Pods, registry: HostileRegistry, harm: str
) -> None:
    pod = await pods.apply(harm, from_registry(registry, harm))
    seen = await pod.until(lambda pod: waiting(pod).get("reason") == "ImagePullBackOff")
    assert registry.asked.is_set()
    told = [waiting(seen)["message"], *(event["message"] for event in await pod.events())]
    assert max(len(message) for message in told) <= _LONGEST
    assert SHOUTED[0] not in "".join(told)


@pytest.mark.parametrize("harm", ["never-answers", "answers-without-end"])
async def test_a_pull_without_end_holds_up_no_pod_that_has_its_image_and_ends_with_its_pod(
    pods: Pods, registry: HostileRegistry, harm: str
) -> None:
    pod = await pods.apply(harm, from_registry(registry, harm))
    assert await asyncio.to_thread(registry.asked.wait, PATIENCE)
    other = await pods.apply(f"beside-{harm}", shell("main"))
    await other.running()
    next_in_line = await pods.apply(f"behind-{harm}", from_registry(registry, "shouts"))
    await pod.delete()
    await next_in_line.until(lambda pod: waiting(pod).get("reason") == "ImagePullBackOff")
