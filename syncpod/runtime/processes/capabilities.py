"""Computes the capabilities that a container's process keeps, and drops all others."""

from __future__ import annotations

import errno

from syncpod.kernel import libc

_IN_ORDER = """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
    NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
    SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
    MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
NAMES = tuple(_IN_ORDER.split())
"""The names of all capabilities in the kernel's order: the index is the number."""


def bit(name: str) -> int:
    """Return the bit of a capability, named with or without `CAP_`. Raises ValueError for an unknown name."""
    plain = name.upper().removeprefix("CAP_")
    if plain not in NAMES:
        raise ValueError(f'unknown capability "{name}"')
    return 1 << NAMES.index(plain)


def kept(own: int, added: tuple[str, ...], dropped: tuple[str, ...]) -> int:
    """Return the bits of `own` that remain after a dropped `ALL`, then `added`, then the rest of `dropped`.

    The order is containerd's (oci.WithAddedCapabilities after a dropped ALL). The result never exceeds `own`: a runtime
    cannot give a capability that it lacks.
    """
    remaining = 0 if _has_all(dropped) else own
    remaining |= own if _has_all(added) else sum(bit(name) for name in set(added)) & own
    for name in dropped:
        if name.upper() != "ALL":
            remaining &= ~bit(name)
    return remaining


def limit(bits: int) -> None:
    """Remove all capabilities except `bits` from the bounding set, so that they cannot be regained.

    Does nothing without CAP_SETPCAP: then the process has no capabilities anyway.
    """
    for number in range(len(NAMES)):
        if bits >> number & 1:
            continue
        try:
            if libc.prctl(libc.PR_CAPBSET_READ, number):
                libc.prctl(libc.PR_CAPBSET_DROP, number)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return  # The kernel has no higher capability.
            if error.errno != errno.EPERM:
                raise


def _has_all(names: tuple[str, ...]) -> bool:
    return any(name.upper() == "ALL" for name in names)
