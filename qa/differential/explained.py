"""The reasons for differences between the kubelet and a node: a sentence each, with its scope and its check.

A difference that no sentence explains fails the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from qa.differential.sentence import Reason, Sentence
from qa.differential.turned import (
    at_its_own_pace,
    at_the_next_sync,
    in_a_loop,
    in_our_order,
    with_exits,
    with_made_ahead,
    with_mount_failure,
    with_requests_as_limits,
)

_Check = Callable[[Any, Any], bool]
_NET_ADMIN: Final = 1 << 12


def _is(kubelet: Any, ours: Any) -> _Check:
    """The two values are exactly these."""
    return lambda theirs, mine: (theirs, mine) == (kubelet, ours)


def _one_of(*pairs: tuple[Any, Any]) -> _Check:
    """The two values are one of these pairs."""
    return lambda theirs, mine: (theirs, mine) in pairs


def _like(kubelet: str, ours: str) -> _Check:
    """The two values fully match these patterns."""
    return lambda theirs, mine: bool(
        re.fullmatch(kubelet, str(theirs), re.DOTALL) and re.fullmatch(ours, str(mine), re.DOTALL)
    )


def _lacks_the_same(kubelet: Any, ours: Any) -> bool:
    """Both messages are about a pod that was refused because the same resource was exhausted."""
    lacking = re.search(r"no set of running pods found to reclaim resources: \[\(res: (\S+),", str(kubelet))
    return lacking is not None and f"Node didn't have enough resource: {lacking[1]}, requested: " in str(ours)


_ONLY_KUBELET: Final = _is("seen", None)
_ONLY_OURS: Final = _is(None, "seen")
_MORE_ADDRESSES: Final = _like(r"[\d.]+", r"[\d.]+,[0-9a-f:]+")

EXPLAINED: Final[tuple[Sentence, ...]] = (
    Sentence(
        "Sandboxes and containers carry the node's marks of ownership besides the kubelet's labels and annotations.",
        Reason.MARKS,
        ("*.annotations.syncpod.dev/*", "*.labels.syncpod.dev/*"),
        holds=lambda kubelet, ours: kubelet is None and ours is not None,
    ),
    Sentence(
        "Limits of huge pages are sent only where cgroups can hold them; this machine has no hugetlb controller, and "
        "containerd ignores the kubelet's, each of which is 0.",
        Reason.BETTER,
        ("*.hugepageLimits[[]*].pageSize",),
        holds=_one_of(("2MB", None), ("1GB", None)),
    ),
    Sentence(
        "The kubelet says that a pod uses the host's user namespace; we leave it out, which means the same.",
        Reason.MARKS,
        ("*.namespaceOptions.usernsOptions.mode",),
        holds=_is("NODE", None),
    ),
    Sentence(
        "A static pod of a kubelet without an API server has no generation; ours has one.",
        Reason.ALONE,
        ("status.observedGeneration", "status.conditions.*.observedGeneration"),
        holds=_is(None, 1),
    ),
    Sentence(
        "Each exit is an event here, with its code and reason.",
        Reason.BETTER,
        ("event.* Exited *",),
        turned=with_exits,
    ),
    Sentence(
        "While an init container runs, the one that follows it may be made already. If it does not end with 0, the "
        "other is removed unseen, and made anew when its turn comes; a kubelet makes it then.",
        Reason.BETTER,
        ("container.*",),
        ("init/*",),
        turned=with_made_ahead,
    ),
    Sentence(
        "Where all containers of a pod are restarted, the event of each kill says why; the kubelet's says `killing`.",
        Reason.BETTER,
        ("event.Normal Killing *: killing",),
        ("restart-all/*",),
        holds=_ONLY_KUBELET,
    ),
    Sentence(
        "Where all containers of a pod are restarted, the event of each kill says why.",
        Reason.BETTER,
        ("event.Normal Killing *: a restart rule asks for all containers to be restarted",),
        ("restart-all/*",),
        holds=_ONLY_OURS,
    ),
    Sentence(
        "Restarts of all containers have a back-off here, one for the pod, in which they wait and the pod is not "
        "ready; a kubelet goes round without a pause.",
        Reason.BETTER,
        ("status.*", "event.*"),
        ("restart-all/loop",),
        turned=in_a_loop,
    ),
    Sentence(
        "Two containers that crash have a back-off each: at one's moment the other may be anywhere.",
        Reason.CHANCE,
        ("status.containerStatuses.other.*", "event.* other: *"),
        ("several/Always-*", "several/OnFailure-1-1"),
        turned=at_its_own_pace("other"),
    ),
    Sentence(
        "An error of TLS is reported in OpenSSL's words, not in Go's.",
        Reason.MARKS,
        ("event.Warning Unhealthy *WRONG_VERSION_NUMBER*",),
        ("probe/https-to-http",),
        holds=_ONLY_OURS,
    ),
    Sentence(
        "An error of TLS is reported in Go's words.",
        Reason.MARKS,
        ("event.Warning Unhealthy *: http: server gave HTTP response to HTTPS client",),
        ("probe/https-to-http",),
        holds=_ONLY_KUBELET,
    ),
    Sentence(
        "After a preStop hook a container is stopped within what is left of the grace period, in whole seconds.",
        Reason.CHANCE,
        ("stops.main",),
        ("hook/prestop*",),
        holds=lambda kubelet, ours: abs(int(kubelet) - int(ours)) <= 1,
    ),
    Sentence(
        "A preStop hook that does not end in time is reported when its time is over.",
        Reason.BETTER,
        ("event.Warning FailedPreStopHook main: PreStopHook did not end within the grace period: it had [45] s",),
        ("hook/prestop-too-long",),
        holds=_ONLY_OURS,
    ),
    Sentence(
        "A preStop hook that does not end in time fails on a kubelet when its container is killed.",
        Reason.BETTER,
        ("event.Warning FailedPreStopHook main: PreStopHook failed",),
        ("hook/prestop-too-long",),
        holds=_ONLY_KUBELET,
    ),
    Sentence(
        "A kubelet shows a container in its back-off as ended, or as not started, and says at its next sync that it "
        "waits: then its state becomes its last one, as it is here at once.",
        Reason.LAG,
        ("status.*ontainerStatuses.*.state.*", "status.*ontainerStatuses.*.lastState.*"),
        turned=at_the_next_sync,
    ),
    Sentence(
        "A kubelet without an API server sets up no projected volumes.",
        Reason.ALONE,
        ("moment",),
        ("volume/projected-*",),
        holds=_like("kubelet did not come to it: .*ContainerCreating.*kube ?client is not configured.*", "reached"),
    ),
    Sentence(
        "A readiness probe that is under way when its container ends says so in an event, in the runtime's words.",
        Reason.CHANCE,
        (
            "event.Warning Unhealthy * container is in CONTAINER_EXITED state",
            "event.Warning Unhealthy * failed to load task: no running task found: not found",
        ),
        ("end/readiness",),
        holds=_one_of(("seen", None), (None, "seen")),
    ),
    Sentence(
        "A back-off after a failed postStart hook says what the hook has said.",
        Reason.BETTER,
        ("status.*ontainerStatuses.*.state.waiting.message",),
        ("hook/poststart-*", "sidecar/poststart-*"),
        holds=lambda kubelet, ours: str(ours).startswith(f"{kubelet}: PostStartHookError: "),
    ),
    Sentence(
        "The events of a start come when it ends, with its postStart hook; a kubelet tells before the hook that the "
        "container was created and started.",
        Reason.BETTER,
        ("event.Normal Pulled *", "event.Normal Created *", "event.Normal Started *"),
        ("hook/poststart-under-way*",),
        holds=_one_of(("seen", None), (1, None), (2, 1)),
    ),
    Sentence(
        "A kubelet makes a pod's status when a sync begins: the address of a sandbox that was made in the same sync "
        "comes after the postStart hook, here before it.",
        Reason.LAG,
        ("status.has podIP",),
        ("hook/poststart-under-way*",),
        holds=_is(False, True),
    ),
    Sentence(
        "A kubelet writes the resolver's options in no order, which is another one each time.",
        Reason.CHANCE,
        ("sandbox.dnsConfig.options[[]*",),
        ("names/dns-config", "names/dns-none-full"),
        turned=in_our_order("sandbox.dnsConfig.options["),
    ),
    Sentence(
        "A kubelet writes the resolver's options in no order into resolv.conf.",
        Reason.CHANCE,
        ("said.main.line *",),
        ("names/dns-config", "names/dns-none-full"),
        holds=lambda kubelet, ours: (
            str(ours).startswith("resolv.conf: options ") and sorted(str(kubelet).split()) == sorted(str(ours).split())
        ),
    ),
    Sentence(
        "The reason why a pod has no sandbox is in the status of its containers too, in the words of its event; a "
        "kubelet has only the event.",
        Reason.BETTER,
        ("status.*ontainerStatuses.*.state.waiting.message",),
        ("volume/hostpath-*",),
        turned=with_mount_failure,
    ),
    Sentence(
        "A container whose last exit is known keeps it when its pod ends in its back-off; a kubelet forgets it, and "
        "says ContainerStatusUnknown.",
        Reason.BETTER,
        ("status.containerStatuses.main.state.terminated.*",),
        ("deadline/crashing",),
        holds=_one_of(
            (137, 1),
            ("ContainerStatusUnknown", "Error"),
            ("The container could not be located when the pod was terminated", None),
            (None, "containerd://<id>"),
            (None, "<time>"),
        ),
    ),
    Sentence(
        "A pod has been initialized if its last init container has ended with 0, here as with a kubelet. But a kubelet "
        "looks at the status that the API server has of the pod: without one it takes no static pod with init "
        "containers for initialized, and leaves its containers waiting.",
        Reason.ALONE,
        ("status.containerStatuses.main.*",),
        ("deadline/in-init",),
        holds=_one_of(
            ("PodInitializing", None),
            (None, 137),
            (None, "ContainerStatusUnknown"),
            (None, "The container could not be located when the pod was terminated"),
        ),
    ),
    Sentence(
        "Containers without an order among them are stopped at once: either may be the first to say so.",
        Reason.CHANCE,
        ("said.trace.line *",),
        ("end/two",),
        turned=in_our_order("said.trace."),
    ),
    Sentence(
        "A sidecar has the grace period less the time that the containers before it took, in whole seconds.",
        Reason.CHANCE,
        ("stops.*",),
        ("end/*sidecar*",),
        holds=lambda kubelet, ours: abs(int(kubelet) - int(ours)) <= 2,
    ),
    Sentence(
        "Since Kubernetes 1.37 the API server, and no kubelet, gives a pod with limits of its own the same requests "
        "where none of its containers has any: a kubelet without one takes it for Burstable, and we for what the API "
        "server would make of it.",
        Reason.ALONE,
        (
            *("status.qosClass", "status.allocatedResources.*", "status.resources.requests.*"),
            *("sandbox.linux.cgroupParent", "*.linux.resources.oomScoreAdj", "said.main.oom score adj"),
        ),
        ("resources/pod-limits",),
        turned=with_requests_as_limits,
    ),
    Sentence(
        "A kubelet without an API server gives no address to pods on the node's network.",
        Reason.ALONE,
        ("status.has podIP",),
        ("names/*host*", "end/host-network"),
        holds=_is(False, True),
    ),
    Sentence(
        "A node with default routes of both families has an address of each; a kubelet has one, unless `--node-ip` "
        "names two.",
        Reason.BETTER,
        ("container.main.envs.X", "said.main.env X"),
        ("env/status-hostIPs",),
        holds=lambda kubelet, ours: _MORE_ADDRESSES(kubelet, ours) and str(ours).startswith(f"{kubelet},"),
    ),
    Sentence(
        "A container that could not be started has no start time here; a kubelet says 1970.",
        Reason.BETTER,
        ("status.containerStatuses.*tate.terminated.startedAt",),
        ("image/no-*", "image/not-*"),
        holds=_is("<time>", None),
    ),
    Sentence(
        "A field that has no effect on a node alone is warned about.",
        Reason.BETTER,
        ("event.Warning Ignored : spec.*: has no effect here: *",),
        ("volume/group-*", "resources/system-*-critical", "admission/tolerations", "admission/scheduling-gate-none"),
        holds=_ONLY_OURS,
    ),
    Sentence(
        "A pod for another operating system is refused by its field; a kubelet admits the file and fails the pod.",
        Reason.BETTER,
        ("moment",),
        ("admission/os-windows",),
        holds=_like("reached", r"syncpod refused the file: .*os\.name: .*operating systems other than linux.*"),
    ),
    Sentence(
        "A resource that only a device plugin provides is refused by its field. A kubelet leaves it to the scheduler, "
        "and runs the static pod without it.",
        Reason.BETTER,
        ("moment",),
        ("admission/unknown-resource",),
        holds=_like("reached", r"syncpod refused the file: .*example\.test/thing.*"),
    ),
    Sentence(
        "A kubelet refuses static pods that refer to objects of an API server (PreventStaticPodAPIReferences). A node "
        "of ours keeps ConfigMaps and Secrets itself, so that its manifests may refer to them; a service account has "
        "no effect, and is warned about.",
        Reason.BETTER,
        ("file",),
        ("refused/config-map-env", "refused/secret-volume", "refused/service-account"),
        holds=_like("refused: static pods may not reference (configmaps|secrets|serviceaccounts)", "not refused"),
    ),
    Sentence(
        "The prefix CAP_ of a capability is removed here; a kubelet passes it on.",
        Reason.BETTER,
        ("container.main.linux.securityContext.capabilities.addCapabilities[[]0]",),
        ("security/cap-prefix",),
        holds=_is("CAP_NET_ADMIN", "NET_ADMIN"),
    ),
    Sentence(
        "A capability whose prefix CAP_ a kubelet passes on is dropped by containerd; here the container has it.",
        Reason.BETTER,
        ("said.main.Cap*",),
        ("security/cap-prefix",),
        holds=lambda kubelet, ours: int(str(ours), 16) ^ int(str(kubelet), 16) == _NET_ADMIN & int(str(ours), 16),
    ),
    Sentence(
        "A kubelet without an API server knows no runtime classes, and therefore of no runtime that mounts read-only "
        "recursively; we ask the runtime.",
        Reason.ALONE,
        (
            "container.main.mounts.*.recursiveReadOnly",
            "status.containerStatuses.main.volumeMounts[[]*].recursiveReadOnly",
        ),
        ("volume/recursive-*",),
        holds=_one_of((None, True), ("Disabled", "Enabled")),
    ),
    Sentence(
        "A kubelet without an API server makes no container that has to be mounted read-only recursively.",
        Reason.ALONE,
        ("moment",),
        ("volume/recursive-Enabled",),
        holds=_like("kubelet did not come to it: .*failed to resolve recursive read-only mode: .*", "reached"),
    ),
    Sentence(
        "Without a cluster domain the kubelet's full name of a pod ends in a dot.",
        Reason.ALONE,
        ("said.main.*", "sandbox.hostname"),
        ("names/*",),
        holds=lambda kubelet, ours: ".svc." in str(kubelet) and str(kubelet).replace(".svc.", ".svc") == ours,
    ),
    Sentence(
        "A static pod is critical to a kubelet, which tries to preempt others before it refuses it; nothing is "
        "preempted here, and the reason says what was lacking.",
        Reason.BETTER,
        ("status.reason",),
        ("admission/*",),
        holds=_like("UnexpectedAdmissionError", r"OutOf[\w-]+"),
    ),
    Sentence(
        "The message of a pod for which the node lacks room has the requested, the used and the available amounts.",
        Reason.BETTER,
        ("status.message",),
        ("admission/*",),
        holds=_lacks_the_same,
    ),
    Sentence(
        "The event of a pod that the node has no room for says what was lacking.",
        Reason.BETTER,
        ("event.Warning OutOf* : Node didn't have enough resource: *",),
        ("admission/*",),
        holds=_ONLY_OURS,
    ),
    Sentence(
        "The event of a static pod that a kubelet has no room for says that it found nothing to preempt.",
        Reason.BETTER,
        ("event.Warning UnexpectedAdmissionError : *no set of running pods found to reclaim resources: *",),
        ("admission/*",),
        holds=_ONLY_KUBELET,
    ),
    Sentence(
        "That there is no cluster DNS is an event of the node here, once for each start of its worker. A kubelet says "
        "it of each pod with dnsPolicy ClusterFirst, which is the default.",
        Reason.BETTER,
        ('event.Warning MissingClusterDNS : pod: "*". kubelet does not have ClusterDNS IP configured *',),
        holds=_ONLY_KUBELET,
    ),
    Sentence(
        "The event about the missing cluster DNS of a pod that asks for ClusterFirstWithHostNet has words of its own.",
        Reason.MARKS,
        ('event.Warning MissingClusterDNS : There is no cluster DNS: policy "ClusterFirstWithHostNet" falls back *',),
        ("names/*",),
        holds=_ONLY_OURS,
    ),
)
"""Intended differences."""

DEFECTS: Final[tuple[Sentence, ...]] = ()
"""Known differences that are defects of ours."""
