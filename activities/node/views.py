"""The listing that the last step of each pod returned; the next step may begin with it."""

from __future__ import annotations

from collections import OrderedDict

from syncpod.messages import ObservedPod
from syncpod.messages.identity import PodRef

REMEMBERED = 1_000
"""The most pods whose last listing is kept; the least recently used one is dropped first, and that pod is read
again."""


class LastViews:
    """Keeps the listing that the newest step of each life has returned.

    Only steps make anything for a pod, one after the other. So for the first try of the step with the very next fence,
    the listing has everything that was made. It lacks exits since then, and changes by other processes.
    """

    def __init__(self) -> None:
        self._views: OrderedDict[tuple[str, str], tuple[int, ObservedPod]] = OrderedDict()

    def keep(self, ref: PodRef, fence: int, view: ObservedPod) -> None:
        """Keep the listing that the step with that fence is about to return."""
        key = (ref.uid, ref.incarnation)
        self._views[key] = (fence, view)
        self._views.move_to_end(key)
        while len(self._views) > REMEMBERED:
            self._views.popitem(last=False)

    def forget(self, ref: PodRef) -> None:
        """Drop the listing of a life that is over."""
        self._views.pop((ref.uid, ref.incarnation), None)

    def before(self, ref: PodRef, fence: int, attempt: int) -> ObservedPod | None:
        """Return the listing with which this attempt of this step may begin; None if it has to read the pod.

        For the first step of a life it is empty: nothing was made before.
        """
        if attempt > 1:
            return None
        last, view = self._views.get((ref.uid, ref.incarnation), (0, ObservedPod(uid=ref.uid)))
        return view if fence == last + 1 else None
