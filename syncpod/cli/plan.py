"""``syncpod plan``: what would be done, without doing it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.cli.arguments import pod_names
from syncpod.cli.console import columns, say, warn
from syncpod.cli.durations import short_duration
from syncpod.cli.failure import BAD_INPUT, BadInput, Failure
from syncpod.cli.options import Filenames, ManifestNamespace, PodNames

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.manifests import Manifests
    from syncpod.pod import Admission


def plan(
    what: PodNames = None,
    filename: Filenames = None,
    namespace: ManifestNamespace = "",
    output: Annotated[str, typer.Option("--output", "-o", metavar="json", help="How to print.")] = "",
) -> None:
    """Show what an apply would do; nothing is done.

    ConfigMaps and Secrets count as they are on this machine now.

    With names in place of manifests: what is about to be done for pods as they are.
    """
    from syncpod.cli import session
    from syncpod.cli.manifests import Manifests, admitted

    names = pod_names(what or [])
    if bool(names) == bool(filename):
        raise BadInput("name a manifest with -f FILE, or pods that exist")
    if output not in ("", "json"):
        raise BadInput(f"--output: must be json, not {output}")
    manifests = admitted(filename, namespace) if filename else Manifests([], [])
    plans = _plans_of_objects(manifests)

    async def work(client: Client) -> None:
        plans.extend([await _plan_of_existing(client, namespace or "default", name) for name in names])
        for admission in manifests.pods:
            plans.append(await _plan_of_manifest(client, admission))
            for warning in admission.warnings:
                warn(f"pod {admission.pod.metadata.name}: {warning}")

    if names or manifests.pods:
        session.run(work)
    print_plans(plans, output)
    if refused := [_error(plan) for plan in plans if plan.get("error")]:
        raise Failure("\n".join(refused), BAD_INPUT)


def _plans_of_objects(manifests: Manifests) -> list[dict[str, Any]]:
    """Return what would become of the ConfigMaps and Secrets of this machine."""
    if not manifests.objects:
        return []
    from syncpod.cli.node_objects import what_would_change
    from syncpod.cli.settings import settings

    words = {"created": "create", "configured": "update", "unchanged": "none", None: "none"}
    return [
        {one.ref.kind.lower(): one.ref.name, "change": words[one.change], "steps": [], "holds": []}
        | ({"error": one.error} if one.error else {})
        for one in what_would_change(manifests, settings())
    ]


async def _plan_of_existing(client: Client, namespace: str, name: str) -> dict[str, Any]:
    from syncpod.cli.pods import QUERY_DEADLINE, handle_of, require_pod

    await require_pod(client, namespace, name)
    found = await handle_of(client, namespace, name).query("plan", result_type=dict, rpc_timeout=QUERY_DEADLINE)
    return {"pod": name, "change": "none", **found}


async def _plan_of_manifest(client: Client, admission: Admission) -> dict[str, Any]:
    from syncpod.cli.applying import Cordoned, refuse_cordoned
    from syncpod.cli.ephemeral import without_known
    from syncpod.cli.node_process import local_node
    from syncpod.cli.planning import changed_images, metadata_differs, plan_of_new, resources_differ
    from syncpod.cli.pods import QUERY_DEADLINE, handle_of, read_pod, require_pod
    from syncpod.pod import pod_to_wire

    namespace, name = admission.pod.metadata.namespace, admission.pod.metadata.name
    here = local_node("")
    try:
        ((pod, _),) = await without_known(client, [admission])
        await refuse_cordoned(client, [pod], here)
    except (BadInput, Cordoned) as refused:
        error = str(refused).removeprefix(f"pod {name}: ")
        return {"pod": name, "change": "none", "steps": [], "holds": [], "error": error}
    if await read_pod(client, namespace, name) is None:
        steps = [{"step": line.step, "container": line.container, "why": line.why} for line in plan_of_new(pod)]
        return {"pod": name, "change": "create", "steps": steps, "holds": []}
    existing = (await require_pod(client, namespace, name)).pod
    found = await handle_of(client, namespace, name).query(
        "plan", pod_to_wire(pod), result_type=dict, rpc_timeout=QUERY_DEADLINE
    )
    images = [{"container": one.container, "from": one.old, "to": one.new} for one in changed_images(existing, pod)]
    differs = {"metadata": metadata_differs(existing, pod), "resources": resources_differ(existing, pod)}
    return {"pod": name, "change": "update", **found, "images": images, **differs}


def print_plans(plans: list[dict[str, Any]], output: str = "") -> None:
    """Print plans for people, or as JSON."""
    if output == "json":
        say(json.dumps(plans if len(plans) != 1 else plans[0], indent=4))
        return
    for plan in plans:
        kind = next(kind for kind in ("pod", "configmap", "secret") if kind in plan)
        if plan.get("error"):
            say(f"{kind}/{plan[kind]}: would be refused")
            continue
        say(f"{kind}/{plan[kind]}: {_title(plan) if kind == 'pod' else _TITLES[plan['change']]}")
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
            left = datetime.fromisoformat(hold["until"]) - datetime.now(UTC)
            say(f"  {hold['subject']} waits for {short_duration(left)} more: {hold['reason']}")


_TITLES = {"create": "would be created", "update": "would be configured", "none": "unchanged"}


def _error(plan: dict[str, Any]) -> str:
    return f"pod {plan['pod']}: {plan['error']}" if "pod" in plan else str(plan["error"])


def _title(plan: dict[str, Any]) -> str:
    """Say in a few words what a plan comes to."""
    if plan["change"] == "create":
        return "would be created"
    images = [f"{one['container']} {one['from']} -> {one['to']}" for one in plan.get("images", ())]
    if images:
        return f"would be configured ({', '.join(images)})" + ("" if plan["steps"] else ", no step")
    if plan.get("resources"):
        return "would be resized"
    if plan.get("metadata") and not plan["steps"]:
        return "would be configured (metadata only), no step"
    return ("exists" if plan["change"] == "update" else "as it is") + ("" if plan["steps"] else ", nothing to do")
