"""Which tests run on which runtime: all on three, and on CRI-O those that show that a pod's whole life goes there too.

`SYNCPOD_RUNTIMES` names, with commas, on which runtimes everything is to run instead: `SYNCPOD_RUNTIMES=crio` is all on
CRI-O, and on nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import pytest

RUNTIMES = ("embedded", "containerd16", "containerd24", "crio")
"""What the suite calls the runtimes, in the order in which it takes them up."""

ON_CRIO: Mapping[str, tuple[str, ...]] = {
    "e2e/test_start.py": (),
    "e2e/test_containers.py": (),
    "e2e/test_volumes.py": (),
    "e2e/test_probes.py": (),
    "e2e/test_hooks.py": (),
    "e2e/test_resizes.py": (),
    "e2e/test_restarts.py": ("test_a_rule_restarts_all_containers_in_place",),
    "e2e/test_deletion.py": (),
    "e2e/test_stop_cases.py": (),
    "e2e/test_termination_messages.py": (),
    "e2e/test_faults_worker.py": (
        "test_killed_before_it_knew_of_a_start_whose_container_has_ended_and_been_removed",
        "test_killed_during_a_back_off",
        "test_killed_in_a_grace_period",
        "test_what_exits_while_no_worker_serves_is_restarted_once_after",
        "test_killed_while_twenty_pods_start",
    ),
    "e2e/test_orphans.py": ("test_a_pod_applied_anew_after_the_database_was_lost_waits_for_the_one_that_runs",),
}
"""By file, the tests that run on CRI-O without being asked for; no name means all of the file."""


def runtime_of(item: pytest.Item) -> str:
    """The runtime that a test is run on, being run on several; "" for others."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return ""
    return next((value for value in item.callspec.params.values() if value in RUNTIMES), "")


def runs(test: str, runtime: str, *, asked_for: str) -> bool:
    """Say whether the test of this id is to run on `runtime`, `asked_for` being what `SYNCPOD_RUNTIMES` says."""
    if asked_for:
        return runtime in {name.strip() for name in asked_for.split(",")}
    if runtime != "crio":
        return True
    path, _, name = test.partition("::")
    tests = ON_CRIO.get(str(PurePosixPath(path).relative_to("tests")))
    return tests is not None and (not tests or name.partition("[")[0] in tests)


def apply(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of the tests collected those that are not to run on their runtime."""
    asked_for = os.environ.get("SYNCPOD_RUNTIMES", "")
    kept, left_out = _divided(items, asked_for)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _divided(items: Iterable[pytest.Item], asked_for: str) -> tuple[list[pytest.Item], list[pytest.Item]]:
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        runtime = runtime_of(item)
        (kept if not runtime or runs(item.nodeid, runtime, asked_for=asked_for) else left_out).append(item)
    return kept, left_out
