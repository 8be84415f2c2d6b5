"""The parts of a listing whose size a pod decides are limited, however many containers the pod has.

Holds: No limit of the server is exceeded.
"""

import json

import pytest

from syncpod.lifecycle.listing_size import TERMINATION_MESSAGES_LIMIT, within_shares
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.lifecycle.start_errors import START_ERROR, failed_start
from syncpod.pod.status import ContainerUser, LinuxContainerUser
from syncpod.pod.wire import json_size, shortened

TEXTS = {"plain": "x" * 4096, "control bytes": "\x01" * 4096, "quotes": '"\\' * 2048, "pictures": "\U0001f600" * 1024}


def ended(names: int, instances: int, message: str, reason: str = "Error") -> list[ObservedContainer]:
    return [
        ObservedContainer(
            id=f"{name}-{number}", name=f"c{name}", restart_count=number, state="exited", reason=reason, message=message
        )
        for name in range(names)
        for number in range(instances)
    ]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize(("names", "instances"), [(1, 1), (1, 7), (16, 2), (25, 3), (500, 2)])
def test_all_messages_of_a_listing_together_have_a_largest_size(names: int, instances: int, text: str) -> None:
    cut = within_shares(ended(names, instances, text))
    sent = json.dumps([each.message for each in cut])
    assert len(sent) <= 2 * TERMINATION_MESSAGES_LIMIT + 4 * len(cut)
    assert all(text.startswith(each.message.removesuffix("…")) for each in cut)


def test_messages_within_their_share_stay_and_a_record_that_stays_is_the_same() -> None:
    containers = ended(3, 2, "x" * 4096)
    assert all(one is other for one, other in zip(within_shares(containers), containers, strict=True))
    assert not within_shares([])


def test_a_share_is_what_a_status_shows_of_a_message() -> None:
    (first, *_) = within_shares(ended(4, 2, "x" * 4096))
    assert json_size(first.message) == TERMINATION_MESSAGES_LIMIT // 4


def test_a_user_with_too_many_groups_is_not_listed() -> None:
    """Each container has all groups of the pod."""

    def shown(names: int, groups: int) -> list[ContainerUser | None]:
        linux = LinuxContainerUser(uid=1, gid=1, supplemental_groups=tuple(range(10**9, 10**9 + groups)))
        update = {"user": ContainerUser(linux=linux)}
        return [each.user for each in within_shares([each.model_copy(update=update) for each in ended(names, 1, "")])]

    assert shown(20, 15_000) == [None] * 20
    assert shown(1, 15_000) == [None]
    (user, *_) = shown(20, 50)
    assert user is not None and user.linux is not None and len(user.linux.supplemental_groups) == 50


@pytest.mark.parametrize(
    "message",
    [
        f"failed to create containerd task: {'x' * 9000}: context deadline exceeded: unknown",
        f"failed to start containerd task: {'x' * 9000}: OCI runtime start failed: {'y' * 9000}",
        f"failed to start containerd task: {'x' * 9000}: ttrpc: closed",
    ],
)
@pytest.mark.parametrize("names", [2, 500])
def test_a_failed_start_means_the_same_once_its_message_is_cut(message: str, names: int) -> None:
    for cut in within_shares(ended(names, 1, message, START_ERROR)):
        assert len(cut.message) < 7000
        assert failed_start(cut.message) == failed_start(message)


@pytest.mark.parametrize("limit", [6, 7, 100, 4096])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_is_cut_as_late_as_its_size_as_json_allows(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert json_size(short) <= limit or short == text
    assert json_size(short) > limit - 12
