"""Reads facts of the machine from /proc, /sys, /etc and its routes: :class:`~syncpod.translation.context.Host`."""

import os
import re
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from syncpod.kernel.machine import own_addresses
from syncpod.kernel.os_errors import where_and_why
from syncpod.kernel.procfs import read_memory, read_task_limit
from syncpod.translation import SandboxConfigError
from syncpod.translation.context import Host, NodeContext, Resolver
from syncpod.translation.dns import parse_resolv_conf

_STUB = ("127.0.0.53",)
"""systemd-resolved's stub listens on the host's loopback, which a pod with its own network cannot reach."""


def read_host(root: Path = Path("/")) -> Host:
    """Read the machine whose file system is at ``root``. Cheap; sends no packets. Raises OSError, ValueError."""
    unified = (root / "sys/fs/cgroup/cgroup.controllers").exists()
    return Host(
        addresses=own_addresses(),
        cpus=os.cpu_count() or 1,
        memory_bytes=read_memory(root / "proc").total,
        max_pids=_max_pids(root / "proc"),
        hugepage_sizes=_hugepage_sizes(root / "sys/kernel/mm/hugepages"),
        hugetlb_controller=_has_hugetlb(root, unified),
        selinux=(root / "sys/fs/selinux/enforce").exists(),
        apparmor=_has_apparmor(root),
        unified_cgroups=unified,
        swap_controller=_swap_file(root, unified).exists(),
        masked_paths=_thermal_throttles(root),
        resolver=read_resolver(root),
    )


def require_own_addresses(addresses: Iterable[str]) -> None:
    """Raise OSError for an address that no interface of this machine has; the error's file name is the address."""
    for address in addresses:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError as error:
                raise OSError(error.errno, error.strerror, address) from None


def with_current_resolver(node: NodeContext, root: Path = Path("/")) -> NodeContext:
    """Return the node with the host's present resolver. Each sandbox gets the current one, as in the kubelet.

    Raises :class:`SandboxConfigError` if resolv.conf cannot be read or parsed.
    """
    try:
        resolver = read_resolver(root)
    except (OSError, ValueError) as error:
        raise SandboxConfigError(f"the host's resolv.conf: {where_and_why(error)}") from error
    return replace(node, host=replace(node.host, resolver=resolver))


def read_resolver(root: Path = Path("/")) -> Resolver:
    """Return the resolver in /etc/resolv.conf, or in systemd-resolved's own file if the former only names its stub.

    A host without the file has an empty resolver. Raises OSError, ValueError.
    """
    found = _resolver(root / "etc/resolv.conf")
    if found is not None and found.servers == _STUB:
        return _resolver(root / "run/systemd/resolve/resolv.conf") or found
    return found or Resolver()


def _resolver(path: Path) -> Resolver | None:
    try:
        return parse_resolv_conf(path.read_text())
    except FileNotFoundError:
        return None


def _max_pids(proc: Path) -> int:
    try:
        return read_task_limit(proc)
    except FileNotFoundError:
        return 0


def _hugepage_sizes(directory: Path) -> tuple[str, ...]:
    """Return the sizes as cgroups name them, smallest first."""
    names = [entry.name for entry in directory.iterdir()] if directory.is_dir() else []
    kilobytes = sorted(int(found[1]) for name in names if (found := re.fullmatch(r"hugepages-(\d+)kB", name)))
    return tuple(_in_units(size) for size in kilobytes)


def _in_units(kilobytes: int) -> str:
    size, units = kilobytes, ["KB", "MB", "GB", "TB"]
    while size % 1024 == 0 and len(units) > 1:
        size //= 1024
        units.pop(0)
    return f"{size}{units[0]}"


def _has_hugetlb(root: Path, unified: bool) -> bool:
    """Return whether the hugetlb controller is mounted where a runtime looks for it; a kernel may have it unmounted."""
    if not unified:
        return (root / "sys/fs/cgroup/hugetlb").is_dir()
    return "hugetlb" in (root / "sys/fs/cgroup/cgroup.controllers").read_text().split()


def _swap_file(root: Path, unified: bool) -> Path:
    """Return a file that exists only if the kernel accounts for swap (swapControllerAvailable, v1.36)."""
    if not unified:
        return root / "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"
    # The root cgroup has no such file, so look in our own cgroup.
    own = next(
        (line[3:] for line in (root / "proc/self/cgroup").read_text().splitlines() if line.startswith("0::")), "/"
    )
    return root / "sys/fs/cgroup" / own.lstrip("/") / "memory.swap.max"


def _has_apparmor(root: Path) -> bool:
    """Return whether profiles can be loaded and enforced (opencontainers/runc, libcontainer/apparmor, IsEnabled)."""
    enabled = root / "sys/module/apparmor/parameters/enabled"
    return (root / "sys/kernel/security/apparmor").exists() and enabled.exists() and enabled.read_text()[:1] == "Y"


def _thermal_throttles(root: Path) -> tuple[str, ...]:
    """Return each CPU's thermal_throttle directory (securitycontext/util.go, v1.36)."""
    found = (root / "sys/devices/system/cpu").glob("cpu*/thermal_throttle")
    names = sorted((path.parent.name for path in found), key=lambda name: int(name.removeprefix("cpu")))
    return tuple(f"/sys/devices/system/cpu/{name}/thermal_throttle" for name in names)
