"""allocate_resources: give a pod on the node the resources that it now requests, if there is room."""

from __future__ import annotations

import asyncio

from activities.node.metrics import count_accepted_resize, count_infeasible_resize
from activities.node.pod_record import note_pod
from activities.pods.admission import strike_what_is_gone
from activities.step_attempt import StepAttempt
from syncpod.cri.records import unenforced_limits
from syncpod.messages.steps import AllocateResources, Allocation, StepResult
from syncpod.node.pod_records import read_pod_record
from syncpod.pod import Pod
from syncpod.translation.refused_limits import added_limits, refusals_of_limits


async def allocate_resources(attempt: StepAttempt, request: AllocateResources) -> StepResult:
    """Allocate the pod's present requests, or return why not: Deferred if there may be room later, else Infeasible.

    The allocation is written to the pod's record before it counts, so it survives a restart of the worker. A repeated
    request gets the same answer. A deferred pod is notified when there is room again. If this pod now takes less, the
    other deferred pods are notified. Nothing is applied here; resize_pod does that. A pod that is not admitted yet gets
    an empty Allocation, because its admission will check the requests.

    A new limit is Infeasible if the runtime reports that it cannot enforce the limit. If such a limit were allocated,
    it could not be applied, and no container of the pod could be created any more.

    Mirrors allocation_manager.go, v1.36, handlePodResourcesResize. Raises OSError, CriError.
    """
    node, ref, pod = attempt.node, request.ref, request.pod
    attempt.doing = "checks whether the node has room for the pod's requests"
    unenforced = await _refusal_of_limits(attempt, pod)
    async with node.ledger.open() as page:
        if not page.has(ref):
            return StepResult(allocation=Allocation())
        if unenforced:
            count_infeasible_resize("limits_unenforced")
            return StepResult(allocation=Allocation(pending="Infeasible", message=unenforced))
        trigger = page.why_again(ref, pod)
        refusal = page.refusal_of_resize(ref, pod, node.context.capacity)
        if refusal is not None and not refusal[1] and await strike_what_is_gone(attempt.node, attempt.ref, page):
            refusal = page.refusal_of_resize(ref, pod, node.context.capacity)
        if refusal is None:
            await asyncio.to_thread(note_pod, node.context, ref, pod)
            if page.enter(ref, pod):
                node.agent.room_freed(page.take_waiting("pod_resized", node.context.capacity))
            if trigger is not None:
                count_accepted_resize(trigger)
            return StepResult(allocation=Allocation())
    (_, message), never = refusal
    if never:
        count_infeasible_resize("insufficient_node_allocatable")
    return StepResult(allocation=Allocation(pending="Infeasible" if never else "Deferred", message=message))


async def _refusal_of_limits(attempt: StepAttempt, pod: Pod) -> str:
    """Return why limits that are new to the pod cannot be enforced; "" if there are none or all can be.

    The runtime's status is read each time, because the runtime may have been restarted as another user.
    """
    record = await asyncio.to_thread(read_pod_record, attempt.node.context, attempt.ref.uid)
    added = added_limits(record.pod, pod) if record is not None else ()
    if not added:
        return ""
    return "; ".join(refusals_of_limits(added, unenforced_limits((await attempt.node.cri.status(verbose=True)).info)))
