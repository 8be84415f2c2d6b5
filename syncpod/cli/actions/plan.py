"""The work of ``syncpod plan``: show what would be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from syncpod.api.listed import why_recorded
from syncpod.cli.actions.apply_forecast import (
    changed_images,
    metadata_differs,
    plan_of_new,
    resources_differ,
    spec_differs,
)
from syncpod.cli.console import warn
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.input.manifests import Manifests
from syncpod.cli.machine.object_apply import what_would_change
from syncpod.cli.machine.settings import settings
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import without_workflow
from syncpod.cli.temporal.ephemeral_containers import without_known
from syncpod.cli.temporal.foresight import NodeUnanswered
from syncpod.cli.temporal.pod_apply import Cordoned, refuse_cordoned, refuse_unmatched
from syncpod.cli.temporal.pod_reads import ask_pod
from syncpod.cli.temporal.pods import read_pod, require_answer
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.pod_commands import Change
from syncpod.node.orphan_mark import why_orphaned
from syncpod.pod import pod_to_wire
from syncpod.translation.refused_limits import names_a_limit

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.client import Reply
    from syncpod.cli.temporal.foresight import Foresight
    from syncpod.pod import Admission, Pod


def plans_of_objects(manifests: Manifests) -> list[dict[str, Any]]:
    """Return what would happen to the ConfigMaps and Secrets of this machine."""
    if not manifests.objects:
        return []
    words = {"created": "create", "configured": "update", "unchanged": "none", None: "none"}
    return [
        {one.ref.kind.lower(): one.ref.name, "change": words[one.change], "steps": [], "holds": []}
        | ({"error": one.error} if one.error else {})
        for one in what_would_change(manifests, settings())
    ]


def plans_of_existing(namespace: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return what is about to be done for pods. Raises Failure if one is missing, is an orphan, or does not answer."""

    def read(_: Reply, reports: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Mapping[str, Any], Any]]:
        return {one["metadata"]["name"]: (one["pod"], one.get("plan")) for one in reports}

    with NodeApi() as api:
        found = api.reports(namespace, names, "pod", "plan", read=read)
    for name in names:
        if name not in found:
            raise Failure(no_such_pod(name, namespace))
        pod, told = found[name]
        if why_orphaned(pod):
            raise Failure(f'pod "{name}" {without_workflow(pod)}')
        if told is None:
            raise Failure(f'pod "{name}" {why_recorded(pod) or "does not answer"}')
    return [{"pod": name, "change": "none", **found[name][1]} for name in names]


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
    fetched = await read_pod(client, namespace, name)
    if fetched is None:
        steps = [{"step": line.step, "container": line.container, "why": line.why} for line in plan_of_new(pod)]
        return {"pod": name, "change": "create", "steps": steps, "holds": []}
    existing = require_answer(fetched).pod
    found = await ask_pod(client, pod_workflow_id(namespace, name), "plan", pod_to_wire(pod), result_type=dict)
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
