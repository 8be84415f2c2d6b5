"""Reads the node's pods from the states that their workflows publish. Each state is converted only once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from syncpod.agent.joined_cluster import JoinedCluster
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.scraping.startups import Startups
from syncpod.agent.scraping.terminations import Terminations
from syncpod.journal.records import HistoryEntry
from syncpod.messages.node import SEEN_ANNOTATION, SOURCE_ANNOTATION
from syncpod.pod.static import HASH_ANNOTATION
from syncpod.temporal.workflow_watch import Published

ORIGIN_ANNOTATIONS: Final = frozenset((SOURCE_ANNOTATION, SEEN_ANNOTATION, HASH_ANNOTATION))
"""The annotations in which the node records a pod's origin."""

Wire = Mapping[str, Any]
"""A Pod as JSON."""


class CountsOfPods(Protocol):
    """Keeps counts for each pod as long as the pod exists."""

    def forget_others(self, uids: Iterable[str]) -> None:
        """Drop the counts of all other pods."""


class SeenPods:
    """Reads published states, and passes new ones on to be counted. Belongs to the agent's event loop."""

    def __init__(
        self,
        published: PublishedPods,
        cluster: JoinedCluster,
        terminations: Terminations,
        startups: Startups,
        *others: CountsOfPods,
    ) -> None:
        """Pass each state of a pod to `terminations` and `startups`. These and `others` drop pods that are gone."""
        self._published, self._cluster = published, cluster
        self._terminations, self._startups = terminations, startups
        self._counts: tuple[CountsOfPods, ...] = (terminations, startups, *others)
        self._untold: list[Published] = []
        """States that were published since the last count."""
        self._pods: dict[str, tuple[Published, Wire]] = {}
        """By workflow id: the newest state, and its Pod."""
        self._reading = asyncio.Lock()
        published.watch(self._untold.append)

    async def read(self) -> Sequence[Wire]:
        """Return the node's pods, and count the states that were published since the last call."""
        async with self._reading:
            runs = self._published.pods()
            records, self._untold[:] = self._untold.copy(), ()
            changed = [each for id_, each in runs.items() if id_ not in self._pods or self._pods[id_][0] is not each]
            read = await asyncio.to_thread(_read, [*records, *changed])
            for published in records:
                self._terminations.take(read[id(published)])
                self._startups.take(read[id(published)], published.at, partial(_entries, published))
            self._pods = {
                id_: (each, read[id(each)] if id(each) in read else self._pods[id_][1]) for id_, each in runs.items()
            }
            for counts in self._counts:
                counts.forget_others(each.uid for each in runs.values())
            return [self._with_cluster(each, pod) for each, pod in self._pods.values()]

    def _with_cluster(self, state: Published, pod: Wire) -> Wire:
        """Return a pod with the labels and annotations that it has in its Kubernetes cluster now.

        Those that change while a pod ends are not sent to its workflow, but a kubelet shows them
        (config/config.go, v1.36, checkAndUpdatePod).
        """
        found = self._cluster.pod(state.metadata)
        if found is None:
            return pod
        own, theirs = pod["metadata"], found["metadata"]
        origin = {name: text for name, text in own.get("annotations", {}).items() if name in ORIGIN_ANNOTATIONS}
        shown = {"labels": theirs.get("labels"), "annotations": {**(theirs.get("annotations") or {}), **origin}}
        kept = {name: each for name, each in own.items() if name not in shown}
        return {**pod, "metadata": {**kept, **{name: each for name, each in shown.items() if each}}}


def _read(published: Iterable[Published]) -> dict[int, Wire]:
    """Return the Pods of published states, by `id` of the state."""
    return {id_: each.pod() for id_, each in {id(each): each for each in published}.items()}


def _entries(published: Published) -> Iterable[HistoryEntry]:
    records = published.journal_records(None)
    return records.entries if records is not None else ()
