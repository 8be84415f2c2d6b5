"""Admission of pods to the node, and release of their resources."""

from __future__ import annotations

import asyncio

from activities.node.context import Node
from activities.node.ledger import LockedLedger, Trigger
from activities.node.metrics import count_rejection
from activities.node.pod_record import mark_record
from activities.step_attempt import PodFault, StepAttempt
from syncpod.cri.records import unenforced_limits
from syncpod.messages.identity import PodRef
from syncpod.messages.steps import CreateSandbox, Fault, Rejection
from syncpod.node.labels import is_asked_for
from syncpod.node.pod_cgroups import unenforced_as_a_whole, weigh_tiers
from syncpod.node.pod_records import read_pod_records
from syncpod.pod import Pod
from syncpod.pod.admission import os_refusal
from syncpod.pod.limits import limits_of
from syncpod.pod.origin import is_readmitted
from syncpod.translation.features import needs_details, refusals
from syncpod.translation.refused_limits import LIMITS_UNENFORCED, refusals_of_limits


async def admit_to_node(attempt: StepAttempt, request: CreateSandbox) -> None:
    """Admit the pod, or raise PodFault PodRejected with the kubelet's reason: the pod has failed.

    A pod that needs a feature that the runtime lacks is not admitted either, but waits: PodFault UnsupportedByRuntime.
    The workflow of a rejected pod may try again (`is_readmitted`). If the pod lacked room or a host port, it is
    notified as soon as it fits.

    Once admitted, this life of the pod is never rejected, even if the node changes or loses its record. When this
    returns, the pod's record, which must exist, is marked as admitted, and the pod's resources count until it has
    finished or is removed. If the worker dies before that, nothing was made, and the next try decides again.

    Mirrors kubelet.go, v1.36, HandlePodAdditions and canAdmitPod, with its handlers in their order: eviction (pressure
    on the node), sysctls, the predicates, the machine's shutdown, AppArmor. Differences: no pod is preempted for a
    critical one; limits that nothing here would enforce are a reason of our own, so that a pod that can never run takes
    no resources. Raises CriError, OSError.
    """
    node, ref, pod = attempt.node, request.ref, request.pod
    attempt.doing = "looks whether the node has room for the pod"
    async with node.ledger.open() as page:
        if page.has(ref):
            page.enter(ref, pod)
            return
        if request.adopt and await _was_made(attempt):
            await asyncio.to_thread(mark_record, node.context, ref, ("admitted",))
            page.enter(ref, pod)
            return
    if pressure := node.agent.admission_refusal(pod):
        raise _rejected("Evicted", pressure)
    if (forbidden := node.sysctls.refusal(pod)) is not None:
        raise _rejected("SysctlForbidden", forbidden)
    await _check_features(attempt, pod)
    if limits := await limits_refusals(node, pod):
        raise _rejected(LIMITS_UNENFORCED, "; ".join(limits))
    unsupported = await unsupported_features(node, pod)
    matches = is_asked_for(pod, node.context)
    async with node.ledger.open() as page:
        refusal = page.refusal(ref, pod, node.context.capacity, matches=matches)
        # A rejection may be final, so first make sure that the pods that take the room still exist.
        if refusal is not None and await strike_what_is_gone(node, ref, page):
            refusal = page.refusal(ref, pod, node.context.capacity, matches=matches)
        if refusal is not None:
            if matches and is_readmitted(pod.metadata):
                page.reject(ref, pod)
            raise _rejected(*refusal)
        if (shuts_down := node.agent.shutdown_refusal()) is not None:
            raise _rejected(*shuts_down)
        if needs_app_armor(pod) and not node.context.host.apparmor:
            raise _rejected("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host")
        if unsupported:  # the pod waits for another runtime, and takes no resources until then
            raise PodFault(Fault.UNSUPPORTED_BY_RUNTIME, "; ".join(unsupported))
        await asyncio.to_thread(mark_record, node.context, ref, ("admitted",))
        page.enter(ref, pod)


async def _was_made(attempt: StepAttempt) -> bool:
    """Return whether this life of the pod has a sandbox. If so, it was admitted before, although its record is lost.

    Raises CriError.
    """
    view = await attempt.read()
    return any(sandbox.incarnation == attempt.ref.incarnation for sandbox in view.sandboxes)


async def strike_what_is_gone(node: Node, own: PodRef, page: LockedLedger) -> bool:
    """Stop counting pods that `syncpod prune` removed without notice to the node; return whether there were any.

    Call it before refusing the pod `own` for lack of room; `own` still counts. Other pods that wait for room are
    notified. Raises OSError.
    """
    records = await asyncio.to_thread(read_pod_records, node.context)
    if not page.forget_others({own.uid, *(record.pod.metadata.uid for record in records)}):
        return False
    waiting = page.take_waiting("pods_removed", node.context.capacity)
    node.agent.room_freed(tuple(each for each in waiting if each.ref.uid != own.uid))
    # Hazard: this must come last. If it fails, the next attempt no longer finds that any pod has gone.
    await asyncio.to_thread(weigh_tiers, node.context, page.burstable_milli_cpu)
    return True


async def free_resources(attempt: StepAttempt, trigger: Trigger) -> None:
    """Stop counting the pod's resources on the node, and notify the pods that wait for them, with the `trigger`.

    Safe to repeat. Raises OSError.
    """
    node = attempt.node
    async with node.ledger.open() as page:
        weight = page.burstable_milli_cpu
        if page.strike(attempt.ref):
            node.agent.room_freed(page.take_waiting(trigger, node.context.capacity))
            if page.burstable_milli_cpu != weight:
                # Hazard: last, for the same reason as above.
                await asyncio.to_thread(weigh_tiers, node.context, page.burstable_milli_cpu)


async def _check_features(attempt: StepAttempt, pod: Pod) -> None:
    """Raise PodFault for an OS or a feature that is missing here (lifecycle/predicate.go, v1.36, Admit)."""
    if (wrong := os_refusal(pod)) is not None:
        raise _rejected(*wrong, final=True)
    security = pod.spec.security_context
    if security is not None and security.supplemental_groups_policy == "Strict":
        status = await attempt.node.cri.status()
        if not status.supplemental_groups_policy:
            raise _rejected(
                "SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"
            )


def needs_app_armor(pod: Pod) -> bool:
    """Return whether anything in the pod is confined by AppArmor (security/apparmor/helpers.go, v1.36, isRequired).

    Defaulting has turned the annotations into fields.
    """
    spec = pod.spec
    contexts = [each.security_context for each in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)]
    profiles = [context.app_armor_profile for context in (spec.security_context, *contexts) if context is not None]
    return any(profile is not None and profile.type != "Unconfined" for profile in profiles)


async def limits_refusals(node: Node, pod: Pod) -> tuple[str, ...]:
    """Return a sentence, with the field's path, for each limit of a pod that nothing here would enforce; () if none.

    The runtime's status is read each time, because the runtime may have been restarted as another user. Raises
    CriError, OSError.
    """
    limits = limits_of(pod)
    if not limits:
        return ()
    refused = refusals_of_limits(limits, unenforced_limits((await node.cri.status(verbose=True)).info))
    paths = {sentence.partition(":")[0] for sentence in refused}
    whole = await asyncio.to_thread(unenforced_as_a_whole, node.context, pod)
    return (*(each for each in whole if each.partition(":")[0] not in paths), *refused)


async def unsupported_features(node: Node, pod: Pod) -> tuple[str, ...]:
    """Return a sentence, with the field's path, for each feature that the runtime does not have. Raises CriError."""
    if needs_details(pod):
        return refusals(pod, await node.cri.status(verbose=True), await node.cri.version())
    return refusals(pod, await node.readiness.status())


def _rejected(reason: str, message: str, *, final: bool = False) -> PodFault:
    count_rejection(reason)
    rejection = Rejection(reason=reason, message=message, final=final)
    return PodFault(Fault.POD_REJECTED, f"{reason}: {message}", rejection=rejection)
