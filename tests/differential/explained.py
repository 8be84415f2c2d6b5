"""Why the two differ, where they do: one sentence for each reason, with where it applies.

A difference that no sentence fits fails the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Sentence:
    """One reason for differences."""

    text: str
    paths: tuple[str, ...]
    """Which facts it is about, as shell patterns; `[` is written `[[]`."""
    scenarios: tuple[str, ...] = ("*",)
    """Which scenarios it is about, as shell patterns."""
    holds: Callable[[Any, Any], bool] | None = None
    """Whether it explains these two values, the kubelet's and ours; by default any."""


EXPLAINED: Final[tuple[Sentence, ...]] = (
    Sentence(
        "Sandboxes and containers carry the node's marks of ownership besides the kubelet's labels and annotations.",
        ("*.annotations.syncpod.dev/*", "*.labels.syncpod.dev/*"),
    ),
    Sentence(
        "Limits of huge pages are sent only where cgroups can hold them; this machine has no hugetlb controller, and "
        "containerd ignores the kubelet's.",
        ("*.hugepageLimits[[]*",),
        holds=lambda kubelet, ours: ours is None,
    ),
    Sentence(
        "The kubelet says that a pod uses the host's user namespace; we leave it out, which means the same.",
        ("*.namespaceOptions.usernsOptions.mode",),
        holds=lambda kubelet, ours: (kubelet, ours) == ("NODE", None),
    ),
    Sentence(
        "A static pod of a kubelet without an API server has no generation; ours has one.",
        ("status.observedGeneration", "status.conditions.*.observedGeneration"),
        holds=lambda kubelet, ours: (kubelet, ours) == (None, 1),
    ),
    Sentence(
        "Each exit is an event here, with its code and reason.",
        ("event.* Exited *",),
        holds=lambda kubelet, ours: kubelet is None,
    ),
    Sentence(
        "Where all containers of a pod are restarted, the event of each kill says why; the kubelet's says `killing`.",
        ("event.Normal Killing *: killing", "event.Normal Killing *: a restart rule asks for all *"),
        ("restart-all/*",),
    ),
    Sentence(
        "Restarts of all containers have a back-off here, one for the pod; a kubelet goes round without a pause.",
        ("status.*", "event.*", "said.*"),
        ("restart-all/loop",),
    ),
    Sentence(
        "Of two containers that crash, each has a back-off of its own: at one's moment the other may be anywhere.",
        ("status.containerStatuses.other.*", "event.*other*"),
        ("several/Always-*", "several/OnFailure-1-1"),
    ),
    Sentence(
        "An error of TLS is told in OpenSSL's words, not in Go's.",
        ("event.Warning Unhealthy *WRONG_VERSION_NUMBER*", "event.Warning Unhealthy *HTTP response to HTTPS client"),
        ("probe/https-to-http",),
    ),
    Sentence(
        "After a preStop hook a container is stopped within what is left of the grace period, in whole seconds.",
        ("stops.main",),
        ("hook/prestop*",),
        holds=lambda kubelet, ours: abs(int(kubelet) - int(ours)) <= 1,
    ),
    Sentence(
        "A container that could not be started has no start time here; a kubelet says 1970.",
        ("status.containerStatuses.*terminated.startedAt",),
        ("image/no-*", "image/not-*"),
        holds=lambda kubelet, ours: ours is None,
    ),
    Sentence(
        "A field that has no effect on a node alone is warned about.",
        ("event.Warning Ignored *",),
        holds=lambda kubelet, ours: kubelet is None,
    ),
    Sentence(
        "The prefix CAP_ of a capability is removed here; a kubelet passes it on, and containerd drops it.",
        ("container.main.linux.securityContext.capabilities.*", "said.main.Cap*"),
        ("security/cap-prefix",),
    ),
    Sentence(
        "A kubelet without an API server knows no runtime classes, and therefore of no runtime that mounts read-only "
        "recursively; we ask the runtime.",
        ("*",),
        ("volume/recursive-*",),
    ),
    Sentence(
        "Without a cluster domain the kubelet's full name of a pod ends in a dot.",
        ("said.main.*", "sandbox.hostname"),
        ("names/*",),
        holds=lambda kubelet, ours: ".svc." in str(kubelet) and str(kubelet).replace(".svc.", ".svc") == ours,
    ),
    Sentence(
        "A static pod is critical to a kubelet, which tries to preempt others before it refuses it; nothing is "
        "preempted here, and the reason says what was lacking.",
        ("event.Warning OutOf*", "event.Warning UnexpectedAdmissionError *", "status.message", "status.reason"),
        ("admission/*",),
    ),
    Sentence(
        "The event about the missing cluster DNS is worded for a node without a kubelet.",
        ("event.Warning MissingClusterDNS *",),
    ),
)
"""Intended differences."""

DEFECTS: Final[tuple[Sentence, ...]] = (
    Sentence(
        "A kubelet makes its directory a shared mount where the machine's root is none (MakeRShared); ours does "
        "not, and the runtime refuses to propagate mounts there.",
        ("moment",),
        ("volume/propagation-*",),
    ),
)
"""Differences that ought not to be, and are known."""
