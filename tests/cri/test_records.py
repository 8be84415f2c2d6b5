"""CRI messages are converted to records; unset times become None."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protos.cri.v1 import api_pb2
from syncpod.cri.records import container_status, moment
from syncpod.pod import ContainerUser, LinuxContainerUser

GO_ZERO_TIME = -6795364578871345152
"""The start time in CRI-O of a container that was stopped before its start."""


def test_a_time_is_cut_to_microseconds() -> None:
    assert moment(1_000_000_001_999) == datetime(1970, 1, 1, 0, 16, 40, 1, tzinfo=UTC)


@pytest.mark.parametrize("nanoseconds", [0, GO_ZERO_TIME])
def test_zero_timestamp_is_no_time(nanoseconds: int) -> None:
    assert moment(nanoseconds) is None


def test_user_of_a_container_is_read_from_the_runtimes_status() -> None:
    said = api_pb2.ContainerStatus()
    assert container_status(api_pb2.ContainerStatusResponse(status=said)).container.user is None
    said.user.linux.CopyFrom(api_pb2.LinuxContainerUser(uid=0, gid=3000, supplemental_groups=[3000, 4000]))
    user = container_status(api_pb2.ContainerStatusResponse(status=said)).container.user
    assert user == ContainerUser(linux=LinuxContainerUser(uid=0, gid=3000, supplemental_groups=(3000, 4000)))
