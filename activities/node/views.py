"""What the last step of each pod has returned: the listing that the next one may begin with."""

from __future__ import annotations

from collections import OrderedDict

from syncpod.messages import ObservedPod, PodRef

REMEMBERED = 1_000
"""Pods whose last listing is kept; the one longest unseen is dropped first, and is simply listed again."""


class LastViews:
    """Remembers the listing that the newest step of a pod's incarnation has ended with.

    Only steps make anything for a pod, and they come one after the other: for the first try of the step with the very
    next fence, everything made is in it. What has exited meanwhile is not, nor what another process has done.
    """

    def __init__(self) -> None:
        self._views: OrderedDict[tuple[str, str], tuple[int, ObservedPod]] = OrderedDict()

    def keep(self, ref: PodRef, fence: int, view: ObservedPod) -> None:
        """Take the listing that the step with that fence is about to return."""
        key = (ref.uid, ref.incarnation)
        self._views[key] = (fence, view)
        self._views.move_to_end(key)
        while len(self._views) > REMEMBERED:
            self._views.popitem(last=False)

    def before(self, ref: PodRef, fence: int, attempt: int) -> ObservedPod | None:
        """Return what that try of that step may begin with; None where it has to look.

        Nothing was made for an incarnation before its first step.
        """
        if attempt > 1:
            return None
        last, view = self._views.get((ref.uid, ref.incarnation), (0, ObservedPod(uid=ref.uid)))
        return view if fence == last + 1 else None
