"""The verbose part of Status: the embedded runtime's configuration, and its limits on this machine."""

from __future__ import annotations

from syncpod.runtime.state import Runtime


def configuration(runtime: Runtime) -> dict[str, object]:
    """Return the `config` of a verbose Status, for JSON."""
    simulated = runtime.host.isolation == "simulated"
    return {
        "stateDir": str(runtime.directory),
        "isolation": runtime.host.isolation,
        "cgroupDriver": "cgroupfs",
        "cgroupControllers": runtime.cgroups.controllers,
        "cgroupsClosed": runtime.cgroups.why_not,
        "limitsUnenforced": {} if simulated else dict(runtime.cgroups.unenforced),
        "unappliedFields": [] if simulated else ["seccompProfile"],
        "weaknesses": weaknesses(runtime),
        "sandboxes": len(runtime.sandboxes),
        "containers": len(runtime.containers),
    }


def weaknesses(runtime: Runtime) -> list[str]:
    """Return a sentence for each feature that this runtime lacks on this machine or for this user.

    A simulated runtime lacks none.
    """
    if runtime.host.isolation == "simulated":
        return []
    found = []
    if runtime.host.isolation == "plain":
        found.append(
            f"containers have no mounts of their own here ({runtime.host.without_mounts or 'they do not work'}): "
            "they share the machine's files, its /tmp and its host name, a volume is a symbolic link on the machine, "
            "and images with files, readOnlyRootFilesystem, recursive read-only mounts and dnsConfig are refused"
        )
    if not runtime.cgroups.hierarchies:
        found.append(f"limits are refused: {runtime.cgroups.why_not}")
    return found
