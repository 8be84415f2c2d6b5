"""Which tests share a process, and in which order processes run them.

Tests of one file on one runtime share a process. All tests on a runtime other than the preferred one also share a
process, so that the runtime is started only once. A test may name another group by `@pytest.mark.xdist_group`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.runtimes import selection

LONGEST = (
    "embedded",
    "cli/test_guides.py",
    "containerd16",
    "crio",
    "e2e/test_nothing_grows.py",
    "containerd24",
    "e2e/test_faults_runtime.py",
    "e2e/test_faults_worker.py",
    "workflows/test_workload.py",
    "e2e/test_fleet_placement.py",
    "e2e/test_fleet_sealing_key.py",
    "qa/test_conformance.py",
    "qa/test_manifests.py",
    "e2e/test_fleet_remote_commands.py",
    "cli/test_streaming_commands.py",
    "e2e/test_crash_points.py",
    "e2e/test_fleet_returns.py",
    "e2e/test_combined_faults.py",
    "e2e/test_faults_hung_call.py",
    "e2e/test_orphans.py",
    "cluster/test_faults.py",
    "simulator/test_month.py",
    "workflows/test_pod_workflow.py",
    "e2e/test_registry.py",
    "qa/test_critest.py",
    "cli/kubelet/test_program.py",
    "cli/test_unenforced_limits.py",
    "cli/test_up_again.py",
    "cli/test_up.py",
    "e2e/test_node_level.py",
    "e2e/test_restarts.py",
    "e2e/test_housekeeping.py",
    "e2e/test_simulated.py",
    "runtimes/test_without_root.py",
    "e2e/test_pressure.py",
    "simulator/test_planted_bugs.py",
    "workflows/test_signal_floods.py",
    "cli/test_apply.py",
)
"""The groups that take longest, the longest first: what is begun last is to be short. Those of a file are named without
the runtime that they run on."""


def apply(items: list[pytest.Item]) -> None:
    """Set the group of each test, and sort tests by groups, the longest groups first."""
    groups = {item: group_of(item) for item in items}
    for item, group in groups.items():
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
    places = places_of(dict.fromkeys(groups.values()))
    items.sort(key=lambda item: places[groups[item]])


def group_of(item: pytest.Item) -> str:
    """The group of a test: its mark's, else its runtime, else its file."""
    named = item.get_closest_marker("xdist_group")
    if named is not None:
        return str(named.args[0])
    file = item.nodeid.partition("::")[0].removeprefix("tests/")
    runtime = selection.runtime_of(item)
    if runtime in ("", selection.installed()[0]) or selection.asked_for():
        return f"{file} {runtime}".strip()
    return runtime


def places_of(groups: Iterable[str]) -> dict[str, int]:
    """The place of each group in the order: the longest, then those on a runtime, then the others as they are found."""
    known = {group: place for place, group in enumerate(LONGEST)}
    runs = set(selection.RUNTIMES)
    ordered = sorted(groups, key=lambda it: known.get(it.split()[0], len(known) + (it.split()[-1] not in runs)))
    return {group: place for place, group in enumerate(ordered)}
