"""The IP addresses of a pod: its sandbox's, the node's, or those it had before."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from syncpod.lifecycle.observed import ObservedPod, ObservedSandbox
from syncpod.pod import Pod


def pod_ips(pod: Pod, observed: ObservedPod, *, previous: Sequence[str], host_ips: Sequence[str]) -> tuple[str, ...]:
    """Return the pod's addresses: at most one of each family, first the family of the node's primary address.

    The addresses are those of the newest sandbox while that is ready. A pod without a ready sandbox keeps its addresses
    (`previous`); a pod on the node's network has the node's (`host_ips`, primary first; empty when not known).

    Mirrors pleg/generic.go, v1.36, getPodIPs, and kubelet_pods.go, v1.36, sortPodIPs and generateAPIPodStatus.
    """
    if pod.spec.host_network:
        kept = previous or host_ips[:1]
        return _by_family((*kept, *host_ips), kept) if kept else ()
    sandboxes = observed.sandboxes
    found = _sandbox_ips(sandboxes[0]) if sandboxes and sandboxes[0].ready else ()
    if found or any(sandbox.ready for sandbox in sandboxes):
        return _by_family(found, host_ips)
    return tuple(previous)


def _sandbox_ips(sandbox: ObservedSandbox) -> tuple[str, ...]:
    """Return a sandbox's addresses, or none at all if one of them is malformed (determinePodSandboxIPs).

    A sandbox without a primary address still has its additional ones.
    """
    primary = (sandbox.ip,) if sandbox.ip else ()
    try:
        return tuple(str(ip_address(address)) for address in (*primary, *sandbox.additional_ips))
    except ValueError:
        return ()


def _by_family(addresses: Sequence[str], node: Sequence[str]) -> tuple[str, ...]:
    """Return the first address of each family; the node's own family comes first, or IPv4 when that is not known."""
    first: dict[int, str] = {}
    for address in addresses:
        first.setdefault(ip_address(address).version, address)
    primary = ip_address(node[0]).version if node else 4
    return tuple(first[version] for version in (primary, 10 - primary) if version in first)
