"""The kernel parameters that a pod may set: those that belong to its namespaces and affect no other pod.

Mirrors sysctl/safe_sysctls.go and sysctl/allowlist.go, v1.37, with component-helpers' node/util/sysctl.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from syncpod.pod import Pod
from syncpod.pod.validation.syntax import dotted_sysctl

Namespace = Literal["IPC", "Net"]

_SAFE: Mapping[str, tuple[int, int]] = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_rmem": (4, 15),
    "net.ipv4.tcp_wmem": (4, 15),
    "net.ipv4.tcp_slow_start_after_idle": (4, 15),
    "net.ipv4.tcp_notsent_lowat": (4, 6),
}
"""The safe sysctls, each with the first kernel version in which it belongs to a namespace."""
_OF_IPC = re.compile(r"kernel\.(sem|shm|shmall|shmmax|shmmni|shm_rmid_forced|msg|msgmax|msgmnb|msgmni)|fs\.mqueue\..*")
_PATTERN = re.compile(r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*([./]?\*)?|\*")
_LONGEST = 253


class SysctlPatternInvalid(ValueError):
    """A pattern of allowed sysctls is invalid; the text names the pattern and the reason."""


@dataclass(frozen=True)
class AllowedSysctls:
    """The sysctls that pods may set on a node: those that are safe on its kernel, and those that its owner allows."""

    names: Mapping[str, Namespace]
    prefixes: Mapping[str, Namespace]

    def refusal(self, pod: Pod) -> str | None:
        """Return the kubelet's sentence for the pod's first forbidden sysctl; None if all are allowed.

        A sysctl of a namespace that the pod shares with the node would change the whole node.
        """
        security, spec = pod.spec.security_context, pod.spec
        for sysctl in security.sysctls if security is not None else ():
            name = dotted_sysctl(sysctl.name)
            namespace = self._namespace(name)
            if namespace is None:
                return f'forbidden sysctl: "{name}" not allowlisted'
            if (namespace == "IPC" and spec.host_ipc) or (namespace == "Net" and spec.host_network):
                return f'forbidden sysctl: "{name}" not allowed with host {namespace} enabled'
        return None

    def _namespace(self, name: str) -> Namespace | None:
        if name in self.names:
            return self.names[name]
        return next((space for prefix, space in self.prefixes.items() if name.startswith(prefix)), None)


def allowed_sysctls(kernel: str, unsafe: Iterable[str] = ()) -> AllowedSysctls:
    """Return the sysctls that pods may set on a kernel of this release, given the allowed `unsafe` ones.

    Each of ``unsafe`` is a name, or a prefix followed by ``*``. Raises :class:`SysctlPatternInvalid` if one is
    malformed, or is of no namespace and so would change the node.
    """
    found = re.match(r"(\d+)\.(\d+)", kernel)
    release = (int(found[1]), int(found[2])) if found else (0, 0)
    names: dict[str, Namespace] = {name: _known(name) for name, since in _SAFE.items() if release >= since}
    prefixes: dict[str, Namespace] = {}
    for pattern in unsafe:
        if len(pattern) > _LONGEST or not _PATTERN.fullmatch(pattern):
            raise SysctlPatternInvalid(f"sysctl {pattern!r}: must be a name such as net.core.somaxconn or net.ipv4.*")
        name, star, _ = dotted_sysctl(pattern).partition("*")
        (prefixes if star else names)[name] = _known(name)
    return AllowedSysctls(names, prefixes)


def _known(name: str) -> Namespace:
    if _OF_IPC.fullmatch(name):
        return "IPC"
    if name.startswith("net."):
        return "Net"
    raise SysctlPatternInvalid(f"sysctl {name!r}: is not known to belong to a pod's own namespaces")
