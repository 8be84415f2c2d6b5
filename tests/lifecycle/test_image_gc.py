"""When image garbage collection removes images, and which."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.image_gc import (
    DiskSpace,
    ImageGcPolicy,
    UnusedImage,
    bytes_to_free,
    outlived,
    removable,
    still_too_full,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LONG_AGO = NOW - 1000 * DAY


def image(name: str, *, unused: timedelta, pulled: timedelta | None = None) -> UnusedImage:
    """An image that was last used this long ago, and by default also pulled then."""
    return UnusedImage(name, 100, pulled=NOW - (unused if pulled is None else pulled), last_used=NOW - unused)


@pytest.mark.parametrize(
    ("available", "high", "low", "wanted"),
    [
        (1000, 85, 80, 0),
        (160, 85, 80, 0),
        (159, 85, 80, 41),
        (150, 85, 80, 50),
        (100, 85, 80, 100),
        (0, 85, 80, 200),
        (0, 100, 80, 0),
        (500, 50, 0, 500),
        (2000, 0, 0, 0),
    ],
)
def test_at_the_high_threshold_images_are_removed_down_to_the_low_one(
    available: int, high: int, low: int, wanted: int
) -> None:
    policy = ImageGcPolicy(high_threshold_percent=high, low_threshold_percent=low)
    assert bytes_to_free(DiskSpace(1000, available), policy) == wanted


def test_the_longest_unused_images_go_first_and_ties_go_by_pull_time() -> None:
    images = (
        image("recent", unused=DAY, pulled=9 * DAY),
        image("newer", unused=3 * DAY),
        image("older", unused=3 * DAY, pulled=5 * DAY),
    )
    assert [each.id for each in removable(images, ImageGcPolicy(), NOW)] == ["older", "newer", "recent"]


def test_a_recently_pulled_image_is_kept() -> None:
    policy = ImageGcPolicy(min_age=timedelta(minutes=2))
    images = (image("just", unused=timedelta(seconds=119)), image("then", unused=timedelta(seconds=120)))
    assert [each.id for each in removable(images, policy, NOW)] == ["then"]


def test_the_maximum_age_applies_only_if_set_and_after_use_was_observed_that_long() -> None:
    images = (image("old", unused=9 * DAY), image("new", unused=DAY))
    week = ImageGcPolicy(max_age=7 * DAY)
    assert outlived(images, ImageGcPolicy(), NOW, LONG_AGO) == ()
    assert outlived(images, week, NOW, NOW - 7 * DAY) == ()
    assert [each.id for each in outlived(images, week, NOW, NOW - 8 * DAY)] == ["old"]


@pytest.mark.parametrize(
    ("policy", "ever"),
    [
        (ImageGcPolicy(), True),
        (ImageGcPolicy(high_threshold_percent=100), False),
        (ImageGcPolicy(high_threshold_percent=100, max_age=DAY), True),
    ],
)
def test_a_policy_without_limits_removes_nothing(policy: ImageGcPolicy, ever: bool) -> None:
    assert policy.ever_removes is ever


def test_insufficient_freed_space_is_reported_with_the_kubelets_message() -> None:
    space = DiskSpace(capacity=27 * 2**30, available=3 * 2**30)
    assert still_too_full(space, 4096, 0) == (
        "Insufficient free disk space on the node's image filesystem (89% of 27.0 GiB used). Failed to free sufficient "
        "space by deleting unused images (freed 4096 bytes). Investigate disk usage, as it could be used by active "
        "images, logs, volumes, or other data."
    )
    assert still_too_full(DiskSpace(512, 0), 0, 2).endswith(
        "(100% of 512 B used). Failed to free sufficient space by deleting unused images (freed 0 bytes). Investigate "
        "disk usage, as it could be used by active images, logs, volumes, or other data. Images that this node did not "
        "pull are never removed: 2."
    )


percents = st.integers(0, 100)


@given(st.integers(1, 2**60), st.integers(0, 2**60), percents, percents)
def test_freed_space_leads_below_the_high_threshold_and_not_beyond_the_low_one(
    capacity: int, available: int, one: int, other: int
) -> None:
    low, high = sorted((one, other))
    policy = ImageGcPolicy(high_threshold_percent=high, low_threshold_percent=low)
    space = DiskSpace(capacity, min(available, capacity))
    wanted = bytes_to_free(space, policy)
    assert wanted >= 0
    if wanted:
        assert space.used_percent >= high
        after = DiskSpace(capacity, space.available + wanted)
        assert after.available <= capacity
        assert after.used_percent >= low
        # Percents are rounded, so that one byte may be missing.
        assert DiskSpace(capacity, min(capacity, after.available + 1)).used_percent <= low
