"""Shows what applying manifests would do, without doing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from syncpod.cli.actions.apply_forecast import (
    changed_images,
    metadata_differs,
    plan_of_new,
    resources_differ,
    spec_differs,
)
from syncpod.cli.console import warn
from syncpod.cli.failure import BadInput, Failure, together
from syncpod.cli.input.manifests import Manifests
from syncpod.cli.machine.object_apply import what_would_change
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.worker_process import local_node
from syncpod.cli.orphan_notes import note_if_earlier
from syncpod.cli.temporal import session
from syncpod.cli.temporal.ephemeral_containers import without_known
from syncpod.cli.temporal.foresight import Foresight, NodeUnanswered
from syncpod.cli.temporal.pod_apply import Cordoned, refuse_cordoned, refuse_unmatched
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pods import require_answer
from syncpod.cli.view.plans import object_of, print_plans
from syncpod.messages.pod_commands import Change
from syncpod.pod import pod_to_wire
from syncpod.translation.refused_limits import names_a_limit

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.pod import Admission, Pod


_END_OF_EARLIER: Final = {
    "step": "kill_pod",
    "container": "",
    "why": "an earlier pod of this name runs without a workflow: it ends first",
}


def plan_manifests(manifests: Manifests, node: str, output: str) -> None:
    """Print what applying the manifests would do. Pods without a node would go to `node`; "" = this machine's.

    Raises Failure, after all is printed, for the objects that would be refused, and for the pods that would be created
    and not run.
    """
    plans = _plans_of_objects(manifests)
    refusals: list[Failure] = [BadInput(plan["error"]) for plan in plans if plan.get("error")]
    stopping = [object_of(plan) for plan in plans if plan.get("error")]

    async def work(client: Client) -> None:
        foresight = Foresight(client)
        for admission in manifests.pods:
            planned, refusal, stops_all = await plan_of_manifest(client, admission, local_node(node), foresight)
            meta, begins = admission.pod.metadata, planned["change"] == "create" and "images" not in planned
            if begins and await note_if_earlier(meta.namespace, meta.name):
                planned["steps"] = [_END_OF_EARLIER, *planned["steps"]]
            plans.append(planned)
            refusals.extend((refusal,) if refusal is not None else ())
            stopping.extend((object_of(planned),) if stops_all else ())
            for warning in admission.warnings:
                warn(f"pod {admission.pod.metadata.name}: {warning}")

    if manifests.pods:
        session.run(work)
    print_plans(_withheld(plans, stopping) if stopping else plans, output)
    if refusals:
        raise together(refusals, done=False)


def _withheld(plans: list[dict[str, Any]], stopping: list[str]) -> list[dict[str, Any]]:
    """Return the plans of an apply that is refused as a whole because of the `stopping` objects: nothing is done."""
    nothing = {"change": "none", "steps": [], "holds": [], "withheld": ", ".join(stopping)}
    return [plan if plan.get("error") else {**plan, **nothing} for plan in plans]


def _plans_of_objects(manifests: Manifests) -> list[dict[str, Any]]:
    """Return what would happen to the ConfigMaps and Secrets of this machine."""
    if not manifests.objects:
        return []
    words = {"created": "create", "configured": "update", "unchanged": "none", None: "none"}
    return [
        {one.ref.kind.lower(): one.ref.name, "change": words[one.change], "steps": [], "holds": []}
        | ({"error": one.error} if one.error else {})
        for one in what_would_change(manifests, settings())
    ]


class Planned(NamedTuple):
    """What applying a pod would do."""

    plan: dict[str, Any]
    refusal: Failure | None = None
    """The failure if the pod would be refused, or created and not run; else None."""
    stops_all: bool = False
    """Whether an apply checks for this refusal before it does anything, so that no manifest would be applied."""


async def plan_of_manifest(client: Client, admission: Admission, node: str, foresight: Foresight) -> Planned:
    """Return what applying a pod would do, and the failure if it would be refused, or created and not run.

    The plan of a pod that would not run has the reasons in `not_run`. The pod would go to `node` unless it names one.
    All pods that are applied together share a `foresight`.
    """
    name = admission.pod.metadata.name
    try:
        ((pod, _),) = await without_known(client, [admission])
        nodes = await refuse_cordoned(client, [pod], node)
    except (BadInput, Cordoned) as refused:
        return Planned(*_refused(name, refused), stops_all=True)
    try:
        await refuse_unmatched(client, pod, node, nodes)
    except BadInput as unmatched:
        return _not_run({"pod": name, "change": "create", "holds": []}, [str(unmatched).removeprefix(f"pod {name}: ")])
    foresight.served.update(nodes)
    planned, there = await _plan_of_pod(client, pod), pod.spec.node_name or node
    if planned.get("error"):
        return Planned(planned, BadInput(f"pod {name}: {planned['error']}"))
    if planned["change"] == "create" and (reasons := await _turned_away(foresight, pod, there)):
        unrun = _not_run(planned, [f"node {there} would not run it: {reason}" for reason in reasons])
        is_new = "images" not in planned  # an apply checks the limits of new pods only
        if not (is_new and any(map(names_a_limit, reasons))):
            return unrun
        nothing = {**planned, "change": "none", "steps": [], "error": unrun.plan["not_run"]}
        return Planned(nothing, unrun.refusal, stops_all=True)
    return Planned(planned)


def _not_run(plan: dict[str, Any], reasons: Sequence[str]) -> Planned:
    """Return the plan of a pod that would be created and that its node would not run."""
    why = BadInput("\n".join(f"pod {plan['pod']}: {reason}" for reason in reasons))
    return Planned({**plan, "steps": [], "not_run": "\n".join(reasons)}, why)


def _refused(name: str, refused: Failure) -> tuple[dict[str, Any], Failure]:
    """Return the plan and the failure of a pod that is refused before its workflow or node is queried."""
    error = str(refused).removeprefix(f"pod {name}: ")
    planned = {"pod": name, "change": "none", "steps": [], "holds": [], "error": error}
    return planned, Failure(f"pod {name}: {error}", refused.code)


async def _turned_away(foresight: Foresight, pod: Pod, node: str) -> list[str]:
    """Return each reason why a new pod's node would not run it; [] if it would. Warns if the node does not answer."""
    try:
        return await foresight.reasons(pod, node)
    except NodeUnanswered as unanswered:
        warn(f"pod {pod.metadata.name}: {unanswered}, so this plan cannot show whether the node would run the pod")
        return []


async def _plan_of_pod(client: Client, pod: Pod) -> dict[str, Any]:
    """Return what applying a pod would do. If the pod has a workflow, its workflow is queried."""
    namespace, name = pod.metadata.namespace, pod.metadata.name
    fetched = await TemporalPods(client).read(namespace, name)
    if fetched is None:
        steps = [{"step": line.step, "container": line.container, "why": line.why} for line in plan_of_new(pod)]
        return {"pod": name, "change": "create", "steps": steps, "holds": []}
    existing = require_answer(fetched).pod
    found = await TemporalPods(client).answer((namespace, name), "plan", pod_to_wire(pod), result_type=dict)
    images = [{"container": one.container, "from": one.old, "to": one.new} for one in changed_images(existing, pod)]
    details = {
        "metadata": metadata_differs(existing, pod),
        "spec": spec_differs(existing, pod),
        "resources": resources_differ(existing, pod),
    }
    return {"pod": name, **found, "change": change_of(found), "images": images, **details}


def change_of(found: Mapping[str, Any]) -> str:
    """Return the word of a plan, such as ``update``, for the change with which a pod's workflow answers an update."""
    words = {Change.FOLLOWS: "create", Change.CONFIGURED: "update", Change.UNCHANGED: "none"}
    # A worker of an earlier version answers without the change.
    return "none" if found.get("error") else words[found.get("change", Change.CONFIGURED)]
