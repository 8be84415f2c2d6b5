"""The node's facts that the translation needs, as values; :mod:`syncpod.node.host` reads those of the machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from syncpod.cri.port import CgroupDriver


@dataclass(frozen=True)
class Resolver:
    """The content of a resolv.conf."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Host:
    """The node's machine. The defaults describe a small machine without IP, SELinux or cgroup v2."""

    addresses: tuple[str, ...] = ()
    """The node's IPs, primary first, at most one of each family."""
    cpus: int = 1
    memory_bytes: int = 1 << 30
    max_pids: int = 0
    """Maximum number of processes and threads of the machine; 0 = not known."""
    hugepage_sizes: tuple[str, ...] = ()
    """Page sizes as cgroups name them: ``2MB``, ``1GB``."""
    hugetlb_controller: bool = True
    """True if cgroups can limit huge pages. If not, a runtime may refuse to start containers with limits of huge
    pages."""
    selinux: bool = False
    """True if SELinux is enabled, so that volumes are relabelled."""
    unified_cgroups: bool = False
    """True if the only cgroup hierarchy is of version 2."""
    single_process_oom_kill: bool = False
    """True if the kernel is to kill only one process of a container that runs out of memory, even if it could kill
    all."""
    apparmor: bool = False
    """True if AppArmor is enabled, so that profiles can be enforced."""
    swap_controller: bool = False
    """True if the memory controller accounts for swap, so that containers can be denied swap."""
    masked_paths: tuple[str, ...] = ()
    """More paths to hide from containers: this machine's thermal_throttle directories."""
    resolver: Resolver = Resolver()

    @property
    def kills_containers_whole(self) -> bool:
        """True if a container that runs out of memory is killed with all its processes (memory.oom.group)."""
        return self.unified_cgroups and not self.single_process_oom_kill


@dataclass(frozen=True)
class ClusterDns:
    """The DNS of a cluster."""

    servers: tuple[str, ...] = ()
    """The addresses of its servers; () = there is no cluster DNS."""
    domain: str = ""
    """The domain of the cluster's names; "" = none, so no domain of a cluster is searched."""


NO_CLUSTER_DNS = ClusterDns()


@dataclass(frozen=True)
class NodeContext:
    """The node's facts that the translation needs: name, directories, cgroups and machine."""

    name: str
    state_dir: Path
    """Holds ``pods/<uid>`` and ``seccomp``; 0700."""
    memory_dir: Path
    """On a memory file system: holds the Secrets and, below ``pods/<uid>``, the volumes made from them; 0700."""
    log_dir: Path
    """Holds ``<namespace>_<name>_<uid>/<container>/<restart>.log``; log agents look in ``/var/log/pods``."""
    cluster: str
    """The Temporal cluster's id and namespace, written on each sandbox."""
    cgroup_parent: str = "syncpod"
    """Name of the cgroup above the pods' cgroups, its parts separated by slashes."""
    cgroup_driver: CgroupDriver = "cgroupfs"
    """The runtime's answer to RuntimeConfig: the runtime makes cgroups itself (`cgroupfs`), or has systemd make
    them."""
    capacity: Mapping[str, int] = field(default_factory=dict)
    """The resources that pods may request: cpu in millicores, all others in their own units; see
    :mod:`syncpod.node.fit`."""
    capacity_of_pods: Mapping[str, int] | None = None
    """The resources that all pods together may use, if this is more than they may request: evictions keep the
    difference free. None = `capacity`."""
    capacity_of_machine: Mapping[str, int] | None = None
    """All resources of the machine, if they are more than pods may request; None = `capacity`."""
    reserved_pids: int = 0
    """Number of process ids that all pods together must leave to the machine; at least a tenth of all ids is left to
    it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The node's own labels, for nodeSelector and node affinity."""
    labels_of_cluster: dict[str, str] = field(default_factory=dict)
    """The labels of the node's Node object in a cluster, which override its own. The agent keeps them up to date."""
    cluster_dns: ClusterDns = NO_CLUSTER_DNS
    """The DNS for pods with dnsPolicy ClusterFirst."""
    pod_cgroups: bool = True
    """True if the node makes each pod's cgroup, with limits, where it can. If False, the runtime makes it, without
    limits."""
    pod_max_pids: int = -1
    """Maximum number of processes and threads of a pod (podPidsLimit); -1 = a pod has no limit of its own."""
    recursive_read_only_handlers: tuple[str, ...] = ()
    """Runtime handlers that announce recursive read-only mounts; ``""`` is the runtime's default handler."""
    applies_seccomp: bool = True
    """True if the runtime applies seccomp profiles; the embedded runtime does not."""
    may_mount: bool = False
    """True if the worker may mount file systems, and the runtime sees the worker's mounts below ``state_dir``."""
    hands_over_paths: bool = False
    """True if the runtime has no more rights on this machine than the worker, and so opens no path that the worker
    could not open."""
    has_own_files: bool = False
    """True if the worker is in a container's mount namespace: a path may be another file for the runtime."""
    shares_pids: bool = False
    """True if the worker and the runtime are in one pid namespace."""
    host: Host = field(default_factory=Host)


def ordered_pod_ips(ip: str | None, additional: tuple[str, ...], node_addresses: tuple[str, ...]) -> tuple[str, ...]:
    """Return a pod's IPs as its status shows them: at most one of each family, first that of the node's primary family.

    ``ip`` and ``additional`` are from a sandbox status; ``None`` and ``""`` mean that it has no network. If any address
    is invalid, none is returned (kuberuntime_sandbox.go, determinePodSandboxIPs, and kubelet_pods.go, sortPodIPs,
    v1.36).
    """
    reported = ((ip,) if ip else ()) + additional
    try:
        families = [ip_address(text).version for text in reported]
        primary = ip_address(node_addresses[0]).version if node_addresses else 4
    except ValueError:
        return ()
    found: dict[int, str] = {}
    for version, text in zip(families, reported, strict=True):
        found.setdefault(version, text)
    return tuple(found[version] for version in (primary, 10 - primary) if version in found)
