"""A run removes what an earlier, interrupted run left on the machine."""

from __future__ import annotations

import os
import subprocess
import uuid

import pytest

from tests.runtimes.leftovers import CGROUPS, remove_cgroup


@pytest.mark.skipif(os.geteuid() != 0, reason="cgroups are root's")
def test_a_cgroup_is_removed_with_its_orphaned_processes() -> None:
    """A container whose shim has died is a child of process 1: its cgroup alone leads to it."""
    name = f"syncpod-test-{uuid.uuid4().hex[:8]}"
    hierarchies = [*CGROUPS.glob("*/cgroup.procs"), *CGROUPS.glob("cgroup.procs")]
    inside = hierarchies[0].parent / name / "pod" / "container"
    inside.mkdir(parents=True)
    with subprocess.Popen(["sleep", "1000"]) as process:
        (inside / "cgroup.procs").write_text(str(process.pid))
        remove_cgroup(f"/{name}")
        assert process.wait() == -9
    assert not (hierarchies[0].parent / name).exists()
