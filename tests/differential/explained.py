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


_BACK_OFF: Final = ("back-off ", "CrashLoopBackOff")

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
        "A preStop hook that does not end in time is told when its time is over; a kubelet's fails when its container "
        "is killed.",
        ("event.Warning FailedPreStopHook main: PreStopHook *",),
        ("hook/prestop-too-long",),
    ),
    Sentence(
        "A kubelet says of a container in its back-off that it waits only at its next sync; until then it is shown as "
        "ended.",
        ("status.*ontainerStatuses.*.state.terminated.*", "status.*ontainerStatuses.*.state.waiting.*"),
        holds=lambda kubelet, ours: (
            (ours is None and not str(kubelet).startswith(_BACK_OFF))
            or (kubelet is None and str(ours).startswith(_BACK_OFF))
        ),
    ),
    Sentence(
        "A kubelet without an API server sets up no projected volumes.",
        ("moment",),
        ("volume/projected-*",),
    ),
    Sentence(
        "A readiness probe that is under way when its container ends says so in an event.",
        ("event.Warning Unhealthy * container is in CONTAINER_EXITED state",),
        ("end/readiness",),
    ),
    Sentence(
        "A back-off after a failed postStart hook says what the hook has said.",
        ("status.*ontainerStatuses.*.state.waiting.message",),
        ("hook/poststart-*", "sidecar/poststart-*"),
        holds=lambda kubelet, ours: str(ours).startswith(f"{kubelet}: PostStartHookError: "),
    ),
    Sentence(
        "A kubelet writes the resolver's options in no order, which is another one each time.",
        ("sandbox.dnsConfig.options[[]*", "said.main.line *"),
        ("names/dns-config", "names/dns-none-full"),
        holds=lambda kubelet, ours: "resolv.conf" not in str(ours) or sorted(kubelet.split()) == sorted(ours.split()),
    ),
    Sentence(
        "Why a pod has no sandbox is told in the status of its containers too; a kubelet has only an event for it.",
        ("status.*ontainerStatuses.*.state.waiting.message",),
        ("volume/hostpath-*",),
        holds=lambda kubelet, ours: kubelet is None and str(ours).startswith("FailedMount: "),
    ),
    Sentence(
        "A container whose last exit is known keeps it when its pod ends in its back-off; a kubelet forgets it, and "
        "says ContainerStatusUnknown.",
        ("status.containerStatuses.main.state.terminated.*",),
        ("deadline/crashing",),
    ),
    Sentence(
        "Containers without an order among them are stopped at once: either may be the first to say so.",
        ("said.trace.*",),
        ("end/two",),
    ),
    Sentence(
        "What is left of the grace period for a sidecar is what those before it took, in whole seconds of the machine.",
        ("stops.*",),
        ("end/*sidecar*",),
        holds=lambda kubelet, ours: abs(int(kubelet) - int(ours)) <= 2,
    ),
    Sentence(
        "A kubelet without an API server gives no address to pods on the node's network.",
        ("status.has podIP",),
        ("names/*host*", "end/host-network"),
        holds=lambda kubelet, ours: (kubelet, ours) == (False, True),
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
        "That there is no cluster DNS is an event of the node here, once for each start of its worker. A kubelet says "
        "it of each pod with dnsPolicy ClusterFirst, which is the default.",
        ('event.Warning MissingClusterDNS : pod: "*". kubelet does not have ClusterDNS IP configured *',),
        holds=lambda kubelet, ours: (kubelet, ours) == ("seen", None),
    ),
    Sentence(
        "The event about the missing cluster DNS of a pod that asks for ClusterFirstWithHostNet has words of its own.",
        ('event.Warning MissingClusterDNS : There is no cluster DNS: policy "ClusterFirstWithHostNet" falls back *',),
        ("names/*",),
        holds=lambda kubelet, ours: (kubelet, ours) == (None, "seen"),
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
