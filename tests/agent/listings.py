"""Listings of pods for tests, and a reader that returns them."""

from __future__ import annotations

from dataclasses import dataclass, field

from syncpod.cri.errors import CriError, Unavailable
from syncpod.lifecycle.observed import ContainerRuntimeState, ObservedContainer, ObservedPod, ObservedSandbox, Seq
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import PlegEvent
from syncpod.node.reader import Relist


def pod(uid: str = "u1", **containers: ContainerRuntimeState) -> ObservedPod:
    """Return a pod with a ready sandbox and containers in these states, without a sequence number."""
    return ObservedPod(
        uid=uid,
        name=f"name-{uid}",
        namespace="default",
        sandboxes=(ObservedSandbox(id=f"{uid}-sandbox", state="SANDBOX_READY", ip="10.0.0.1"),),
        containers=tuple(
            ObservedContainer(id=f"{uid}-{name}", name=name, state=state) for name, state in containers.items()
        ),
    )


def ref(uid: str = "u1") -> PodRef:
    return PodRef(namespace="default", name=f"name-{uid}", uid=uid)


class Shown:
    """Returns these listings as the newest ones, as PLEG does."""

    def __init__(self, *pods: ObservedPod) -> None:
        self._pods = {pod.uid: pod for pod in pods}

    def listings(self) -> tuple[ObservedPod, ...]:
        return tuple(self._pods.values())

    def newest(self, uid: str) -> ObservedPod | None:
        return self._pods.get(uid)

    def forget(self, uid: str) -> None:
        del self._pods[uid]


@dataclass
class SetUpReader:
    """Returns what is in `pods`, each time with a newer number; fails for UIDs in `broken`."""

    pods: dict[str, ObservedPod] = field(default_factory=dict)
    broken: dict[str, CriError] = field(default_factory=dict)
    counter: int = 0
    reads: int = 0

    def has(self, *pods: ObservedPod) -> None:
        self.pods = {pod.uid: pod for pod in pods}

    def numbered(self, listing: ObservedPod) -> ObservedPod:
        """The listing, with a new number, as if it were read now."""
        self.counter += 1
        return listing.model_copy(update={"seq": Seq(boot=1, counter=self.counter)})

    async def read(self, uid: str) -> ObservedPod:
        self.reads += 1
        if uid in self.broken:
            raise self.broken[uid]
        return self.numbered(self.pods.get(uid, ObservedPod(uid=uid)))

    async def read_all(self) -> Relist:
        self.counter += 1
        seq = Seq(boot=1, counter=self.counter)
        listed = {uid: pod.model_copy(update={"seq": seq}) for uid, pod in self.pods.items() if uid not in self.broken}
        return Relist(seq=seq, pods=listed, failures=dict(self.broken))


@dataclass
class Sent:
    """One signal that was sent."""

    ref: PodRef
    events: tuple[PlegEvent, ...]
    status: ObservedPod

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


def unavailable() -> CriError:
    return Unavailable("container_status", "UNAVAILABLE", "hangs")
