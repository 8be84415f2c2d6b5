"""Facts about the machine, and the order of a pod's addresses."""

import os
from ipaddress import ip_address
from pathlib import Path

import pytest

from syncpod.node.host import read_host, read_resolver, with_current_resolver
from syncpod.translation import SandboxConfigError
from syncpod.translation.context import Resolver, ordered_pod_ips
from tests.translation.translation import NODE

V4_FIRST, V6_FIRST = ("192.0.2.10", "2001:db8::10"), ("2001:db8::10", "192.0.2.10")

ADDRESSES: dict[str, tuple[str | None, tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "none": (None, (), V4_FIRST, ()),
    "none yet": ("", (), V4_FIRST, ()),
    "one": ("10.4.0.7", (), V4_FIRST, ("10.4.0.7",)),
    "both families, the node's first": ("fd00::7", ("10.4.0.7",), V4_FIRST, ("10.4.0.7", "fd00::7")),
    "both families of a node with IPv6 first": ("10.4.0.7", ("fd00::7",), V6_FIRST, ("fd00::7", "10.4.0.7")),
    "IPv4 first where the node has none": ("fd00::7", ("10.4.0.7",), (), ("10.4.0.7", "fd00::7")),
    "the first of each family": ("10.4.0.7", ("10.4.0.8", "fd00::7", "fd00::8"), V4_FIRST, ("10.4.0.7", "fd00::7")),
    "the other family alone": ("fd00::7", (), V4_FIRST, ("fd00::7",)),
    "one that is none spoils all": ("10.4.0.7", ("nonsense",), V4_FIRST, ()),
    "a primary that is none": ("nonsense", ("10.4.0.7",), V4_FIRST, ()),
}


@pytest.mark.parametrize(("ip", "additional", "of_node", "ordered"), ADDRESSES.values(), ids=ADDRESSES)
def test_the_addresses_of_a_pod(
    ip: str | None, additional: tuple[str, ...], of_node: tuple[str, ...], ordered: tuple[str, ...]
) -> None:
    assert ordered_pod_ips(ip, additional, of_node) == ordered


@pytest.mark.parametrize("controllers", [None, "cpu memory\n", "cpu hugetlb memory\n"])
def test_huge_pages_can_be_limited_if_the_hugetlb_controller_is_there(root: Path, controllers: str | None) -> None:
    if controllers is None:
        (root / "sys/fs/cgroup/hugetlb").mkdir()
    else:
        (root / "sys/fs/cgroup/cgroup.controllers").write_text(controllers)
    assert read_host(root).hugetlb_controller is (controllers is None or "hugetlb" in controllers)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small machine: 2 GiB, cgroups of version 1, one CPU that counts its throttling."""
    files = {
        "proc/meminfo": "MemTotal:        2097152 kB\nMemFree:         1 kB\n",
        "proc/self/cgroup": "0::/user.slice/worker.scope\n",
        "etc/resolv.conf": "nameserver 192.0.2.53\n",
    }
    directories = [
        "sys/kernel/mm/hugepages/hugepages-1048576kB",
        "sys/kernel/mm/hugepages/hugepages-2048kB",
        "sys/kernel/mm/hugepages/hugepages-64kB",
        "sys/devices/system/cpu/cpu10/thermal_throttle",
        "sys/devices/system/cpu/cpu2/thermal_throttle",
        "sys/devices/system/cpu/cpu3",
        "sys/fs/cgroup/memory",
    ]
    for directory in directories:
        (tmp_path / directory).mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_machine_is_read_from_its_files(root: Path) -> None:
    host = read_host(root)
    assert host.memory_bytes == 2 << 30
    assert host.hugepage_sizes == ("64KB", "2MB", "1GB")
    assert host.masked_paths == (
        "/sys/devices/system/cpu/cpu2/thermal_throttle",
        "/sys/devices/system/cpu/cpu10/thermal_throttle",
    )
    assert not host.hugetlb_controller
    assert host.resolver == Resolver(servers=("192.0.2.53",))
    assert (host.selinux, host.unified_cgroups, host.swap_controller) == (False, False, False)


def test_swap_is_accounted_if_cgroup_v1_has_its_swap_file(root: Path) -> None:
    (root / "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").touch()
    assert read_host(root).swap_controller


def test_swap_is_accounted_if_our_cgroup_v2_has_a_swap_file(root: Path) -> None:
    (root / "sys/fs/cgroup/cgroup.controllers").touch()
    assert (read_host(root).unified_cgroups, read_host(root).swap_controller) == (True, False)
    own = root / "sys/fs/cgroup/user.slice/worker.scope"
    own.mkdir(parents=True)
    (own / "memory.swap.max").touch()
    assert read_host(root).swap_controller


def test_the_number_of_processes_is_the_smaller_of_the_kernels_limits(root: Path) -> None:
    kernel = root / "proc/sys/kernel"
    kernel.mkdir(parents=True, exist_ok=True)
    (kernel / "pid_max").write_text("4194304\n")
    assert read_host(root).max_pids == 4194304
    (kernel / "threads-max").write_text("126000\n")
    assert read_host(root).max_pids == 126000


def test_selinux_is_detected_by_its_file_system(root: Path) -> None:
    (root / "sys/fs/selinux").mkdir(parents=True)
    (root / "sys/fs/selinux/enforce").touch()
    assert read_host(root).selinux


def test_pods_get_the_upstream_servers_behind_systemd_resolveds_stub(root: Path) -> None:
    (root / "etc/resolv.conf").write_text("nameserver 127.0.0.53\noptions edns0\n")
    assert read_resolver(root) == Resolver(servers=("127.0.0.53",), options=("edns0",))
    (root / "run/systemd/resolve").mkdir(parents=True)
    (root / "run/systemd/resolve/resolv.conf").write_text("nameserver 192.0.2.54\n")
    assert read_resolver(root) == Resolver(servers=("192.0.2.54",))


def test_a_host_without_resolv_conf_gives_pods_no_resolver(root: Path) -> None:
    (root / "etc/resolv.conf").unlink()
    assert read_resolver(root) == Resolver()


def test_the_facts_of_this_machine_can_be_read() -> None:
    """Row 93: at most one address of each family, IPv4 first."""
    host = read_host()
    assert host.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert host.cpus == os.cpu_count()
    families = [ip_address(address).version for address in host.addresses]
    assert families in ([], [4], [6], [4, 6])
    assert not any(ip_address(address).is_loopback for address in host.addresses)


def test_an_invalid_resolv_conf_fails_the_sandbox(root: Path) -> None:
    (root / "etc/resolv.conf").write_text("nameserver\n")
    with pytest.raises(SandboxConfigError, match=r"the host's resolv\.conf: a nameserver line has no address"):
        with_current_resolver(NODE, root)


def test_the_current_resolv_conf_of_the_host_is_used() -> None:
    assert with_current_resolver(NODE).host.resolver == read_resolver()
    assert with_current_resolver(NODE).host.addresses == NODE.host.addresses
