"""The kernel parameters that a pod may set."""

from typing import Any

import pytest

from syncpod.translation.sysctls import SysctlPatternInvalid, allowed_sysctls
from tests.translation.translation import make_pod

KERNEL = "6.1.0-13-amd64"


def refused(*names: str, kernel: str = KERNEL, unsafe: tuple[str, ...] = (), **spec: Any) -> str | None:
    pod = make_pod({"securityContext": {"sysctls": [{"name": name, "value": "1"} for name in names]}, **spec})
    return allowed_sysctls(kernel, unsafe).refusal(pod)


CASES: dict[str, tuple[str | None, str | None]] = {
    "none": (refused(), None),
    "a safe one": (refused("kernel.shm_rmid_forced", "net.ipv4.tcp_syncookies"), None),
    "those that are safe since 1.37": (
        refused("net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"),
        None,
    ),
    "those that are safe since 1.37, on a kernel that does not keep them apart": (
        refused("net.ipv4.tcp_slow_start_after_idle", kernel="4.14.0"),
        'forbidden sysctl: "net.ipv4.tcp_slow_start_after_idle" not allowlisted',
    ),
    "a safe one with slashes": (refused("net/ipv4/ip_local_port_range"), None),
    "one that is not safe": (
        refused("kernel.shm_rmid_forced", "kernel.msgmax"),
        'forbidden sysctl: "kernel.msgmax" not allowlisted',
    ),
    "one that an older kernel does not keep apart": (
        refused("net.ipv4.tcp_rmem", kernel="4.14.0"),
        'forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted',
    ),
    "one of the network, on the node's": (
        refused("net.ipv4.tcp_syncookies", hostNetwork=True),
        'forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled',
    ),
    "one of IPC, on the node's": (
        refused("kernel.shm_rmid_forced", hostIPC=True),
        'forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled',
    ),
    "an unsafe one that is allowed": (refused("kernel.msgmax", unsafe=("kernel.msgmax",)), None),
    "any of those allowed": (refused("net.core.somaxconn", unsafe=("net.core.*",)), None),
    "an allowed one, on the node's network": (
        refused("net.core.somaxconn", unsafe=("net.*",), hostNetwork=True),
        'forbidden sysctl: "net.core.somaxconn" not allowed with host Net enabled',
    ),
    "one with a slash in a name that is allowed": (
        refused("net.ipv4.conf.eth0/100.forwarding", unsafe=("net.ipv4.conf.*",)),
        None,
    ),
}


@pytest.mark.parametrize(("said", "expected"), CASES.values(), ids=CASES)
def test_sysctls_that_a_pod_may_set(said: str | None, expected: str | None) -> None:
    assert said == expected


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("vm.swappiness", "sysctl 'vm.swappiness': is not known to belong to a pod's own namespaces"),
        ("kernel.shmx", "sysctl 'kernel.shmx': is not known"),
        ("*", "sysctl '': is not known"),
        ("Net..x", "sysctl 'Net..x': must be a name such as net.core.somaxconn or net.ipv4.*"),
        ("net.*.x", "sysctl 'net.*.x': must be a name"),
    ],
)
def test_a_node_level_sysctl_cannot_be_allowed(pattern: str, sentence: str) -> None:
    with pytest.raises(SysctlPatternInvalid) as wrong:
        allowed_sysctls(KERNEL, [pattern])
    assert str(wrong.value).startswith(sentence)
