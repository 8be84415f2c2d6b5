"""Garbage collection of dead containers and sandboxes: all but the newest are removed.

The pod's workflow has recorded how each container ended. The runtime's dead instances are kept for people, who read the
log of the last one (``logs --previous``), and for decisions, which look at the newest instance of each name.

Mirrors kuberuntime/kuberuntime_gc.go and pod_container_deletor.go, v1.36. Differences:

- The newest instance of a name is never removed from a pod that goes on, not even for the limit of the whole node: the
  pod's next decision depends on it.
- An instance that was created and never started does not count as the newest dead one: it has no log, and would
  displace an instance with a log. It is removed once the caller lists it as `never_started`, that is, once no step is
  about to start it.
- An instance whose state the runtime has lost may be running. The pod's own steps stop it and then remove it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, order_containers, order_sandboxes

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class ContainerGcPolicy:
    """How many dead containers are kept; the kubelet's configuration and its defaults."""

    per_container: int = 1
    """MaxPerPodContainer: dead instances of each container of each pod; at least 1."""
    in_all: int = -1
    """MaxContainers: dead instances on the node; -1 = no limit."""
    min_age: timedelta = timedelta(0)
    """MinAge: an instance that was created less than this time ago is kept."""


@dataclass(frozen=True)
class _Unit:
    """The dead instances of one container of one pod, newest first: the kubelet's evict unit."""

    uid: str
    dead: tuple[ObservedContainer, ...]
    bound: frozenset[str]
    """Ids of the instances that are kept even above the node's limit."""


def superfluous_containers(
    listings: Iterable[ObservedPod],
    policy: ContainerGcPolicy,
    now: datetime,
    *,
    over: Collection[str] = (),
    never_started: Collection[str] = (),
) -> dict[str, tuple[str, ...]]:
    """Return the ids of the containers to remove, oldest first, by the UID of their pod.

    `over` has the UIDs of pods that no longer need any of their dead containers. `never_started` has the ids of created
    containers that no step is about to start. `now` is by the clock that also gives containers their creation times.

    Mirrors evictableContainers, enforceMaxContainersPerEvictUnit and evictContainers.
    """
    pods = [listing for listing in listings if listing.containers]
    gone: dict[str, set[str]] = {listing.uid: set() for listing in pods}
    units: list[_Unit] = []
    for listing in pods:
        gone[listing.uid].update(c.id for c in listing.containers if c.state == "created" and c.id in never_started)
        for unit in _units(listing, policy, now):
            if listing.uid in over:
                gone[listing.uid].update(container.id for container in unit.dead)
            else:
                gone[listing.uid].update(container.id for container in unit.dead[max(policy.per_container, 1) :])
                units.append(unit)
    _hold_to_limit(units, policy.in_all, gone)
    return {
        listing.uid: tuple(c.id for c in reversed(order_containers(listing.containers)) if c.id in gone[listing.uid])
        for listing in pods
        if gone[listing.uid]
    }


def superfluous_sandboxes(listing: ObservedPod) -> tuple[str, ...]:
    """Return the ids of the sandboxes to remove, oldest first: not ready, empty, and not the newest.

    The newest stays because its number is the highest that has been used. Mirrors evictSandboxes.
    """
    homes = {container.sandbox_id for container in listing.containers}
    older = order_sandboxes(listing.sandboxes)[1:]
    return tuple(sandbox.id for sandbox in reversed(older) if not sandbox.ready and sandbox.id not in homes)


def is_dead(listing: ObservedPod) -> bool:
    """Say whether nothing of a pod is alive: no sandbox is ready, and each container has ended or never started."""
    return not any(sandbox.ready for sandbox in listing.sandboxes) and all(
        container.state in ("exited", "created") for container in listing.containers
    )


def _units(listing: ObservedPod, policy: ContainerGcPolicy, now: datetime) -> list[_Unit]:
    by_name: dict[str, list[ObservedContainer]] = {}
    for container in order_containers(listing.containers):
        by_name.setdefault(container.name, []).append(container)
    units = []
    for instances in by_name.values():
        made = [each for each in instances if each.state != "created"]
        dead = [c for c in made if c.state == "exited" and now - (c.created_at or _LONG_AGO) >= policy.min_age]
        newest = {each.id for each in made[:1]}
        if dead:  # the limit is shared only among containers that have dead instances
            units.append(_Unit(listing.uid, tuple(dead), frozenset(newest)))
    return units


def _hold_to_limit(units: Iterable[_Unit], limit: int, gone: Mapping[str, set[str]]) -> None:
    """Add ids to `gone` until no more than `limit` are kept: first those above a container's share, then the oldest."""
    left = {unit.uid: gone[unit.uid] for unit in units}

    def kept() -> list[tuple[_Unit, ObservedContainer]]:
        return [(unit, c) for unit in units for c in unit.dead if c.id not in left[unit.uid]]

    units = tuple(units)
    if limit < 0 or len(kept()) <= limit:
        return
    share = max(limit // len(units), 1)
    for unit in units:
        standing = [c for c in unit.dead if c.id not in left[unit.uid]]
        left[unit.uid].update(c.id for c in standing[share:])
    spare = [(unit, c) for unit, c in kept() if c.id not in unit.bound]
    too_many = max(len(kept()) - limit, 0)
    for unit, container in sorted(spare, key=lambda each: (each[1].created_at or _LONG_AGO, each[1].id))[:too_many]:
        left[unit.uid].add(container.id)
