"""``syncpod plan``: show what would be done."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from syncpod.api.views.durations import short_duration
from syncpod.api.views.text import columns
from syncpod.cli.console import say, warn
from syncpod.cli.failure import BadInput, Failure, together
from syncpod.cli.input.arguments import pod_names, require_json
from syncpod.cli.input.manifests import admitted
from syncpod.cli.input.options import (
    Filenames,
    IgnoreOtherKinds,
    ManifestNamespace,
    Node,
    OnlyJson,
    PodNames,
    Recursive,
)
from syncpod.cli.orphan_notes import note_if_earlier

if TYPE_CHECKING:
    from temporalio.client import Client


def plan(
    what: PodNames = None,
    filename: Filenames = None,
    namespace: ManifestNamespace = "",
    output: OnlyJson = "",
    recursive: Recursive = False,
    ignore_other_kinds: IgnoreOtherKinds = False,
    node: Node = "",
) -> None:
    """Show what an apply would do, without doing it.

    For a new pod, this also shows whether its node would run it: whether the node has room beside the pods that come
    earlier in the manifests, and supports the pod's fields. A warning names a node that does not answer. ConfigMaps and
    Secrets count as they are on this machine now.

    With names of pods instead of manifests, it shows what is about to be done for these pods.
    """
    names = pod_names(what or [])
    if bool(names) == bool(filename):
        raise BadInput("name a manifest with -f FILE, or pods that exist")
    require_json(output)
    from syncpod.cli.actions.plan import plan_of_manifest, plans_of_existing, plans_of_objects

    if not filename:
        print_plans(plans_of_existing(namespace or "default", names), output)
        return
    manifests = admitted(filename, namespace, recursive=recursive, ignore_other_kinds=ignore_other_kinds)
    from syncpod.cli.machine.worker_process import local_node
    from syncpod.cli.temporal import session
    from syncpod.cli.temporal.foresight import Foresight

    plans = plans_of_objects(manifests)
    refusals: list[Failure] = [BadInput(plan["error"]) for plan in plans if plan.get("error")]
    stopping = [_called(plan) for plan in plans if plan.get("error")]

    async def work(client: Client) -> None:
        foresight = Foresight(client)
        for admission in manifests.pods:
            planned, refusal, stops_all = await plan_of_manifest(client, admission, local_node(node), foresight)
            meta, begins = admission.pod.metadata, planned["change"] == "create" and "images" not in planned
            if begins and await note_if_earlier(meta.namespace, meta.name):
                planned["steps"] = [_END_OF_EARLIER, *planned["steps"]]
            plans.append(planned)
            refusals.extend((refusal,) if refusal is not None else ())
            stopping.extend((_called(planned),) if stops_all else ())
            for warning in admission.warnings:
                warn(f"pod {admission.pod.metadata.name}: {warning}")

    if manifests.pods:
        session.run(work)
    print_plans(_withheld(plans, stopping) if stopping else plans, output)
    if refusals:
        raise together(refusals, done=False)


def _called(plan: dict[str, Any]) -> str:
    """Return the object of a plan: ``pod/web``."""
    kind = next(kind for kind in ("pod", "configmap", "secret") if kind in plan)
    return f"{kind}/{plan[kind]}"


def _withheld(plans: list[dict[str, Any]], stopping: list[str]) -> list[dict[str, Any]]:
    """Return the plans of an apply that is refused as a whole because of the `stopping` objects: nothing is done."""
    nothing = {"change": "none", "steps": [], "holds": [], "withheld": ", ".join(stopping)}
    return [plan if plan.get("error") else {**plan, **nothing} for plan in plans]


_END_OF_EARLIER: Final = {
    "step": "kill_pod",
    "container": "",
    "why": "an earlier pod of this name runs without a workflow: it ends first",
}


def print_plans(plans: list[dict[str, Any]], output: str = "") -> None:
    """Print plans as text, or as JSON."""
    if output == "json":
        say(json.dumps(plans if len(plans) != 1 else plans[0], indent=4))
        return
    for plan in plans:
        if plan.get("error"):
            say(f"{_called(plan)}: would be refused")
            continue
        if plan.get("withheld"):
            say(f"{_called(plan)}: would not be applied, since the whole apply is refused for {plan['withheld']}")
            continue
        say(f"{_called(plan)}: {_title(plan) if 'pod' in plan else _TITLES[plan['change']]}")
        rows = [
            (f"  {number}.", step["step"], step["container"] or "-", step["why"])
            for number, step in enumerate(plan["steps"], 1)
        ]
        for line in columns(rows):
            say(line)
        for hold in plan["holds"]:
            if hold["until"] is None:
                say(f"  {hold['subject']} waits for `syncpod retry`: {hold['reason']}")
                continue
            say(f"  {hold['subject']} waits for {_left(hold['until'])} more: {hold['reason']}")
        if plan.get("deadline"):
            say(f"  the pod fails in {_left(plan['deadline'])}, when its active deadline has passed")


def _left(until: str) -> str:
    """Return how long it is until a time, in words; never negative, although the answer took a moment."""
    return short_duration(max(datetime.fromisoformat(until) - datetime.now(UTC), timedelta()))


_TITLES = {"create": "would be created", "update": "would be configured", "none": "unchanged"}


def _title(plan: dict[str, Any]) -> str:
    """Return the result of a plan in a few words."""
    if plan.get("not_run"):
        return "would be created, but its node would not run it"
    if plan["change"] == "create":
        return "would be created" + (", when the one that is being deleted has gone" if "images" in plan else "")
    images = [f"{one['container']} {one['from']} -> {one['to']}" for one in plan.get("images", ())]
    if images:
        return f"would be configured ({', '.join(images)})" + ("" if plan["steps"] else ", no step")
    if plan.get("resources"):
        return "would be resized"
    if plan.get("metadata") and not plan["spec"] and not plan["steps"]:
        return "would be configured (metadata only), no step"
    if plan["change"] == "update":
        return "would be configured" + ("" if plan["steps"] else ", no step")
    return "unchanged" + ("" if plan["steps"] else ", nothing to do")
