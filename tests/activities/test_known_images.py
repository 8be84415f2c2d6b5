"""One call lists the node's images for many pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from activities.node import recent_answers
from activities.node.pulls import Pulls, PullSettings
from activities.node.recent_answers import FRESH_SECONDS, KnownImages
from syncpod.cri import CriRuntime


@dataclass
class Runtime:
    """Has images, and counts the calls that list them."""

    images: dict[str, Any] = field(default_factory=dict)
    asked: int = 0

    async def image_status(self, image: str) -> Any:
        self.asked += 1
        return self.images.get(image)


def images_of(runtime: Runtime, pulls: Pulls) -> Any:
    """The node's known images, which here are plain words."""
    return KnownImages(cast(CriRuntime, runtime), pulls)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(recent_answers, "monotonic", lambda: now[0])
    return now


async def test_an_image_that_is_there_is_asked_for_once_in_a_moment(tmp_path: Path, clock: list[float]) -> None:
    runtime, pulls = Runtime({"a": "one"}), Pulls(tmp_path, PullSettings())
    images = images_of(runtime, pulls)
    assert [await images.status("a") for _ in range(3)] == ["one"] * 3
    assert runtime.asked == 1
    runtime.images["a"] = "two"
    pulls.ended += 1  # it may have brought another image of that name
    assert (await images.status("a"), runtime.asked) == ("two", 2)
    clock[0] += FRESH_SECONDS
    assert (await images.status("a"), runtime.asked) == ("two", 3)


async def test_an_image_that_is_not_there_is_asked_for_each_time(tmp_path: Path, clock: list[float]) -> None:
    runtime = Runtime()
    images = images_of(runtime, Pulls(tmp_path, PullSettings()))
    assert [await images.status("a") for _ in range(2)] == [None, None]
    runtime.images["a"] = "one"
    assert (await images.status("a"), runtime.asked) == ("one", 3)


async def test_few_images_are_remembered(tmp_path: Path, clock: list[float]) -> None:
    names = [str(number) for number in range(recent_answers._REMEMBERED + 1)]
    runtime = Runtime(dict.fromkeys(names, "it"))
    images = images_of(runtime, Pulls(tmp_path, PullSettings()))
    for name in names:
        await images.status(name)
    assert len(images._known) <= recent_answers._REMEMBERED
