"""Removes a cgroup of killed processes, which may end only when the machine schedules them."""

import time

from syncpod.runtime.cgroups.limits import CgroupRefused, Cgroups


def remove_in_time(cgroups: Cgroups, path: str, *, patience: float = 60.0) -> None:
    """Remove a container's cgroup, with retries while that fails; raises CgroupRefused after `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            cgroups.remove(path)
        except CgroupRefused:
            if time.monotonic() > deadline:
                raise
        else:
            return
