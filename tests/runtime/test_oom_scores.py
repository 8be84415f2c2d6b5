"""No container inherits its supervisor's protection from the OOM killer."""

from __future__ import annotations

from protos.cri.v1 import api_pb2
from syncpod.runtime.processes.process_spec import _oom_score_adj
from tests.runtime.test_server_refusals import ORDINARY, ROOT


def linux(*, oom_score_adj: int) -> api_pb2.LinuxContainerConfig:
    return api_pb2.LinuxContainerConfig(resources=api_pb2.LinuxContainerResources(oom_score_adj=oom_score_adj))


def test_a_container_has_what_it_asks_for_and_otherwise_nothing() -> None:
    assert _oom_score_adj(linux(oom_score_adj=-997), ROOT) == -997
    assert _oom_score_adj(linux(oom_score_adj=-997), ORDINARY) == 100, "as low as this user may"
    assert _oom_score_adj(linux(oom_score_adj=900), ORDINARY) == 900
    assert _oom_score_adj(api_pb2.LinuxContainerConfig(), ROOT) == 0, "not its supervisor's"
