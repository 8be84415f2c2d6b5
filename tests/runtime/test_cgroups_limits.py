"""Limits and figures in the machine's own cgroups; foreign cgroups are not touched. Needs root."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from protos.cri.v1.api_pb2 import HugepageLimit, LinuxContainerResources
from syncpod.runtime.cgroups.limits import CgroupRefused, Cgroups, container_cgroup
from tests.patience import PATIENCE
from tests.runtime.cgroup_removal import remove_in_time

MIB = 1 << 20
BEFORE = LinuxContainerResources()

ENTER = """
import sys
for file in sys.argv[2:]:
    with open(file, "w") as procs:
        procs.write("0")
exec(sys.argv[1])
"""
SPIN = "print('.', flush=True)\nwhile True: pass"
FAMILY = """
import subprocess
for _ in range(3):
    subprocess.Popen(["setsid", "sh", "-c", "sleep 1000 & sleep 1000 & wait"])
print(".", flush=True)
input()
"""
OWN_CGROUP = """
import os
own = os.path.join(os.path.dirname(sys.argv[-1]), "made-by-the-container")
os.mkdir(own)
with open(os.path.join(own, "cgroup.procs"), "w") as procs:
    procs.write("0")
print(".", flush=True)
input()
"""

FOUND = Cgroups.find()
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not FOUND.hierarchies, reason=FOUND.why_not or "needs root")


class Containers:
    """A test's cgroups, and processes in them."""

    def __init__(self, cgroups: Cgroups) -> None:
        self.cgroups = cgroups
        self.parent = f"/syncpod-test-{secrets.token_hex(4)}"
        self.paths: list[str] = []
        self.processes: list[subprocess.Popen[str]] = []

    def make(self, pod: str = "pod1", **resources: object) -> str:
        path = container_cgroup(f"{self.parent}/{pod}", secrets.token_hex(32))
        self.paths.append(path)
        self.cgroups.make(path, LinuxContainerResources(**resources))  # type: ignore[arg-type]
        return path

    def run(self, path: str, code: str) -> subprocess.Popen[str]:
        """Start Python code in a cgroup."""
        command = [sys.executable, "-I", "-S", "-c", ENTER, code, *self.cgroups.procs(path)]
        process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.processes.append(process)
        return process

    def start(self, path: str, code: str) -> subprocess.Popen[str]:
        """Start Python code in a cgroup, and return once it has reported that it is ready."""
        process = self.run(path, code)
        assert process.stdout and process.stdout.readline() == ".\n"
        return process

    def directories(self, path: str) -> list[Path]:
        return [each.base / path.lstrip("/") for each in self.cgroups.hierarchies]

    def file(self, path: str, *names: str) -> str:
        """Return the content of the first of these files that exists in the cgroup; names differ between versions."""
        return next(
            (directory / name).read_text().strip()
            for directory in self.directories(path)
            for name in names
            if (directory / name).exists()
        )

    def close(self) -> None:
        for path in self.paths:
            self.cgroups.kill(path)
        for process in self.processes:
            process.kill()
            process.communicate()
        for path in self.paths:
            remove_in_time(self.cgroups, path)
        left = [directory for directory in self.directories(self.parent) if directory.exists()]
        for directory in left:
            for found, _, _ in os.walk(directory, topdown=False):
                Path(found).rmdir()
        assert not left, f"cgroups are left behind: {left}"


@pytest.fixture
def containers() -> Iterator[Containers]:
    containers = Containers(FOUND)
    yield containers
    containers.close()


def needs(*controllers: str) -> pytest.MarkDecorator:
    missing = set(controllers) - set(FOUND.controllers)
    return pytest.mark.skipif(bool(missing), reason=f"no controller here for {', '.join(sorted(missing))}")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@needs("memory")
def test_a_process_over_its_memory_limit_is_oom_killed_and_reported(containers: Containers) -> None:
    path = containers.make(memory_limit_in_bytes=32 * MIB, memory_swap_limit_in_bytes=32 * MIB)
    bystander = containers.make(memory_limit_in_bytes=32 * MIB)
    process = containers.run(path, "hoard = b'x' * (256 << 20)")
    assert process.wait() == -signal.SIGKILL
    assert containers.cgroups.oom_killed(path)
    assert not containers.cgroups.oom_killed(bystander)


@needs("memory")
def test_a_process_below_its_memory_limit_is_not_killed(containers: Containers) -> None:
    path = containers.make(memory_limit_in_bytes=64 * MIB)
    assert containers.run(path, "hoard = b'x' * (16 << 20)").wait() == 0
    assert not containers.cgroups.oom_killed(path)


@needs("cpu")
def test_a_process_over_its_cpu_quota_is_throttled(containers: Containers) -> None:
    path = containers.make(cpu_quota=10_000, cpu_period=100_000, cpu_shares=512)
    containers.start(path, SPIN)

    def throttled() -> bool:
        lines = (line.split() for line in containers.file(path, "cpu.stat").splitlines())
        return int(dict(lines)["nr_throttled"]) > 0

    eventually(throttled)
    assert containers.file(path, "cpu.shares", "cpu.weight") in ("512", "59")


@needs("cpu", "cpuset", "memory")
def test_a_limit_update_changes_only_the_given_values(containers: Containers) -> None:
    path = containers.make(
        cpu_quota=50_000, cpu_period=100_000, memory_limit_in_bytes=32 * MIB, memory_swap_limit_in_bytes=32 * MIB
    )
    cpus = containers.file(path, "cpuset.cpus", "cpuset.cpus.effective")
    containers.cgroups.update(
        path, LinuxContainerResources(memory_limit_in_bytes=64 * MIB, memory_swap_limit_in_bytes=64 * MIB), BEFORE
    )
    usage = containers.cgroups.usage(path)
    assert usage and usage.memory and usage.memory.limit == 64 * MIB
    assert containers.file(path, "cpu.cfs_quota_us", "cpu.max").split()[0] == "50000"
    containers.cgroups.update(
        path, LinuxContainerResources(cpu_quota=200_000, cpu_period=50_000, cpuset_cpus="0"), BEFORE
    )
    assert containers.file(path, "cpu.cfs_quota_us", "cpu.max").split()[0] == "200000"
    assert containers.file(path, "cpuset.cpus") == "0" != cpus or cpus == "0"
    containers.cgroups.update(path, LinuxContainerResources(memory_limit_in_bytes=-1, cpu_quota=-1), BEFORE)
    usage = containers.cgroups.usage(path)
    assert usage and usage.memory and (usage.memory.limit, usage.memory.available) == (None, None)
    assert containers.file(path, "cpu.cfs_quota_us", "cpu.max").split()[0] in ("-1", "max")


@needs("memory")
@pytest.mark.parametrize("limit", [16 * MIB, 128 * MIB])
def test_memory_and_swap_limits_can_be_raised_and_lowered_together(containers: Containers, limit: int) -> None:
    path = containers.make(memory_limit_in_bytes=64 * MIB, memory_swap_limit_in_bytes=64 * MIB)
    containers.cgroups.update(
        path, LinuxContainerResources(memory_limit_in_bytes=limit, memory_swap_limit_in_bytes=limit), BEFORE
    )
    usage = containers.cgroups.usage(path)
    assert usage and usage.memory and usage.memory.limit == limit
    assert usage.memory.swap_limit in (0, None)


@needs("memory")
def test_a_memory_limit_may_exceed_the_former_limit_on_memory_and_swap(containers: Containers) -> None:
    path = containers.make(memory_limit_in_bytes=16 * MIB, memory_swap_limit_in_bytes=16 * MIB)
    containers.cgroups.update(path, LinuxContainerResources(memory_limit_in_bytes=32 * MIB), BEFORE)
    usage = containers.cgroups.usage(path)
    assert usage and usage.memory and usage.memory.limit == 32 * MIB
    assert usage.memory.swap_limit in (0, None)


@needs("memory")
def test_a_limit_below_current_usage_is_refused_without_an_oom_kill(containers: Containers) -> None:
    path = containers.make(memory_limit_in_bytes=64 * MIB)
    process = containers.start(path, "hoard = b'x' * (16 << 20)\nprint('.', flush=True)\ninput()")
    with pytest.raises(CgroupRefused, match=r"memory limit 1048576: the container uses \d+ bytes now"):
        containers.cgroups.update(path, LinuxContainerResources(memory_limit_in_bytes=MIB), BEFORE)
    assert process.poll() is None


in_version_2 = pytest.mark.skipif(
    not any(each.version == 2 and "memory" in each.controllers for each in FOUND.hierarchies),
    reason="the memory controller is not of version 2 here",
)


@in_version_2
@pytest.mark.parametrize("as_a_group", [True, False])
def test_without_memory_a_container_ends_as_a_whole_if_its_cgroup_says_so(
    containers: Containers, *, as_a_group: bool
) -> None:
    unified = {"memory.oom.group": "1"} if as_a_group else {}
    path = containers.make(memory_limit_in_bytes=48 * MIB, unified=unified)
    other = containers.start(path, "print('.', flush=True)\ninput()")
    process = containers.run(path, "hoard = b'x' * (256 << 20)")
    assert process.wait() == -signal.SIGKILL
    eventually(lambda: containers.cgroups.oom_killed(path))
    if as_a_group:
        assert other.wait() == -signal.SIGKILL
    else:
        assert other.poll() is None


@in_version_2
def test_a_container_beyond_memory_high_is_slowed_down_and_not_killed(containers: Containers) -> None:
    path = containers.make(memory_limit_in_bytes=128 * MIB, unified={"memory.high": str(16 * MIB)})
    process = containers.run(path, "hoard = b'x' * (64 << 20)\ninput()")

    def counted(event: str) -> int:
        return int(dict(line.split() for line in containers.file(path, "memory.events").splitlines())[event])

    eventually(lambda: counted("high") > 0)
    assert process.poll() is None
    assert (counted("oom_kill"), containers.cgroups.oom_killed(path)) == (0, False)


@needs("hugetlb")
def test_huge_pages_are_limited_where_the_machine_has_them(containers: Containers) -> None:
    path = containers.make(hugepage_limits=[HugepageLimit(page_size="2MB", limit=4 * MIB)])
    assert containers.file(path, "hugetlb.2MB.max", "hugetlb.2MB.limit_in_bytes") == str(4 * MIB)


@needs("hugetlb")
def test_a_cgroup_whose_limits_cannot_be_set_is_removed(containers: Containers) -> None:
    with pytest.raises(CgroupRefused, match=r"^hugepages-3MB limit: hugetlb.3MB.\w+ cannot be set to 1: no such file"):
        containers.make(hugepage_limits=[HugepageLimit(page_size="3MB", limit=1)])
    assert not any(directory.exists() for directory in containers.directories(containers.parent))


@needs("memory", "pids")
def test_usage_is_that_of_the_processes_and_summed_for_the_pod(containers: Containers) -> None:
    one, other = containers.make(memory_limit_in_bytes=64 * MIB), containers.make()
    containers.start(one, "hoard = b'x' * (16 << 20)\n" + SPIN)
    containers.start(other, FAMILY)
    before = containers.cgroups.usage(one)
    assert before and before.cpu_nanoseconds is not None

    def grew() -> bool:
        after = containers.cgroups.usage(one)
        assert after and after.cpu_nanoseconds is not None and before and before.cpu_nanoseconds is not None
        return after.cpu_nanoseconds > before.cpu_nanoseconds + 10_000_000 and after.timestamp > before.timestamp

    eventually(grew)
    usage = containers.cgroups.usage(one)
    pod = containers.cgroups.usage(f"{containers.parent}/pod1")
    assert usage and usage.memory and pod and pod.memory
    assert usage.processes == 1
    assert 16 * MIB <= usage.memory.working_set <= usage.memory.usage <= 64 * MIB
    assert usage.memory.resident >= 16 * MIB
    assert usage.memory.available == 64 * MIB - usage.memory.working_set
    # How many there are depends on how large the kernel chose the pages.
    assert usage.memory.page_faults > usage.memory.major_page_faults >= 0
    eventually(lambda: (found := containers.cgroups.usage(other)) is not None and found.processes == 10)
    pod = containers.cgroups.usage(f"{containers.parent}/pod1")
    assert pod and pod.memory and pod.processes == 11 and pod.memory.usage > usage.memory.usage


@pytest.mark.skipif(not Path("/proc/pressure").exists(), reason="the kernel keeps no pressure")
@pytest.mark.skipif(all(each.version == 1 for each in FOUND.hierarchies), reason="version 1 keeps no pressure")
def test_waiting_for_the_cpu_shows_as_pressure(containers: Containers) -> None:
    path = containers.make()
    for _ in range(2 * (os.cpu_count() or 1)):
        containers.start(path, SPIN)

    def waited() -> bool:
        usage = containers.cgroups.usage(path)
        assert usage and usage.cpu_pressure and usage.memory_pressure and usage.io_pressure
        return usage.cpu_pressure.some.total_nanoseconds > 0

    eventually(waited)


WAYS_TO_KILL = {
    "as the machine has it": FOUND,
    "by version 1 alone, frozen meanwhile": replace(
        FOUND, hierarchies=tuple(each for each in FOUND.hierarchies if each.version == 1)
    ),
    "with nothing that stops them from forking": replace(
        FOUND, hierarchies=tuple(each for each in FOUND.hierarchies if "pids" in each.controllers and each.version == 1)
    ),
}


@pytest.mark.parametrize("cgroups", WAYS_TO_KILL.values(), ids=WAYS_TO_KILL.keys())
def test_a_kill_reaches_daemonised_processes_and_no_others(cgroups: Cgroups) -> None:
    if not cgroups.hierarchies:
        pytest.skip("this machine has no such hierarchies")
    containers = Containers(cgroups)
    try:
        path, bystander = containers.make(), containers.make()
        family, other = containers.start(path, FAMILY), containers.start(bystander, FAMILY)
        eventually(lambda: (usage := cgroups.usage(path)) is not None and usage.processes == 10)
        cgroups.kill(path)
        assert family.wait() == -signal.SIGKILL
        remove_in_time(cgroups, path)
        assert not any(directory.exists() for directory in containers.directories(path))
        assert other.poll() is None
        eventually(lambda: (usage := cgroups.usage(bystander)) is not None and usage.processes == 10)
    finally:
        containers.close()


def test_a_cgroup_that_the_container_made_in_its_own_is_killed_and_removed_with_it(containers: Containers) -> None:
    path = containers.make()
    process = containers.start(path, OWN_CGROUP)
    containers.cgroups.kill(path)
    assert process.wait() == -signal.SIGKILL
    remove_in_time(containers.cgroups, path)
    assert not any(directory.exists() for directory in containers.directories(path))


def test_a_cgroup_in_use_is_not_removed_and_its_processes_are_named(containers: Containers) -> None:
    path = containers.make()
    process = containers.start(path, FAMILY.replace("range(3)", "range(0)"))
    with pytest.raises(CgroupRefused, match=f"still in use by processes {process.pid}$"):
        containers.cgroups.remove(path)
    assert process.poll() is None


def test_all_cgroup_operations_are_idempotent(containers: Containers) -> None:
    path = containers.make(cpu_shares=2)
    containers.cgroups.make(path, LinuxContainerResources(cpu_shares=2))
    for _ in range(2):
        containers.cgroups.kill(path)
        containers.cgroups.remove(path)
    containers.cgroups.kill(path)
    assert containers.cgroups.usage(path) is None
    assert not containers.cgroups.oom_killed(path)
    with pytest.raises(CgroupRefused, match="there is no such cgroup"):
        containers.cgroups.update(path, LinuxContainerResources(cpu_shares=2), BEFORE)


def test_a_pod_cgroup_is_removed_with_its_last_container_unless_it_existed_before(containers: Containers) -> None:
    foreign = [each.base / containers.parent.lstrip("/") for each in containers.cgroups.hierarchies]
    for directory in foreign:
        directory.mkdir()
    try:
        one, other = containers.make(), containers.make()
        pod = containers.directories(f"{containers.parent}/pod1")
        containers.cgroups.remove(one)
        assert all(directory.is_dir() for directory in pod)
        containers.cgroups.remove(other)
        assert not any(directory.exists() for directory in pod)
        assert all(directory.is_dir() for directory in foreign)
    finally:
        for directory in foreign:
            directory.rmdir()


@pytest.mark.parametrize("path", ["/", "/syncpod", "/syncpod/pod1", "/a/../" + "a" * 64, "a" * 64])
def test_only_the_containers_own_cgroup_is_changed(path: str) -> None:
    for change in (FOUND.kill, FOUND.remove, FOUND.procs, FOUND.oom_killed):
        with pytest.raises(CgroupRefused):
            change(path)
    with pytest.raises(CgroupRefused):
        FOUND.make(path, LinuxContainerResources())
