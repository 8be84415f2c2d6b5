"""``apply --dry-run``: what would happen to each manifest, in kubectl's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.actions.apply_forecast import metadata_differs, spec_differs
from syncpod.cli.actions.plan import plan_of_manifest
from syncpod.cli.console import say, warn
from syncpod.cli.failure import Failure, together
from syncpod.cli.machine.object_apply import require_possible, what_would_change
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.worker_process import local_node
from syncpod.cli.orphan_notes import note_if_earlier
from syncpod.cli.temporal import session
from syncpod.cli.temporal.foresight import Foresight
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pods import require_answer
from syncpod.messages.pod_commands import Change
from syncpod.pod import Admission, Pod

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.input.manifests import Manifests
    from syncpod.settings.node import NodeSettings

_WORDS = {"create": Change.CREATED, "update": Change.CONFIGURED, "none": Change.UNCHANGED}


def try_manifests(manifests: Manifests, node: str, mark: str, *, asks: bool) -> None:
    """Print what would be done, each line with `mark` at its end; with `asks`, workflows and nodes are queried too.

    Raises Failure for each object that would be refused.
    """
    machine = settings()
    require_possible(manifests, machine, asked=node)
    if not manifests.pods:
        _print_objects(manifests, machine, mark)
        return

    async def work(client: Client) -> None:
        await _print_all(client, manifests, machine, local_node(node), mark, asks=asks)

    session.run(work)


def _print_objects(manifests: Manifests, here: NodeSettings, mark: str) -> None:
    """Print what would happen to the ConfigMaps and Secrets, which have passed `object_apply.require_possible`."""
    if manifests.objects:
        for one in what_would_change(manifests, here):
            say(f"{one.ref.kind.lower()}/{one.ref.name} {one.change}{mark}")


async def _print_all(
    client: Client, manifests: Manifests, here: NodeSettings, node: str, mark: str, *, asks: bool
) -> None:
    """Print what would happen to each object, each line with `mark` at its end.

    Raises Failure for pods that would be refused, and for those that would be created and not run.

    A refused pod does not stop the others, unless an apply would refuse all of the manifests because of it: then
    nothing is printed. With `asks`, workflows are queried for changes that they would refuse. Nodes are queried too:
    whether they are cordoned, and whether they have room for each new pod beside the earlier ones.
    """
    foresight = Foresight(client)
    refused: list[_Refused] = []
    changes: list[tuple[Admission, Change]] = []
    for admission in manifests.pods:
        try:
            if asks:
                change, unrun = await _asked(client, admission, node, foresight)
                refused.extend((unrun,) if unrun is not None else ())
            else:
                change = await _compared(client, admission.pod)
        except Failure as failure:
            refused.append(failure if isinstance(failure, _Refused) else _Refused(failure))
        else:
            changes.append((admission, change))
    if any(one.stops_all for one in refused):
        raise together(refused, done=False)
    _print_objects(manifests, here, mark)
    for (pod, warnings), change in changes:
        say(f"pod/{pod.metadata.name} {change}{mark}")
        if change is Change.CREATED:
            await note_if_earlier(pod.metadata.namespace, pod.metadata.name)
        for warning in warnings:
            warn(f"pod {pod.metadata.name}: {warning}")
    if refused:
        raise together(refused, done=False)


class _Refused(Failure):
    """A pod would be refused, or created and not run."""

    def __init__(self, why: Failure, *, stops_all: bool = False) -> None:
        """`stops_all` as in `plan.Planned`."""
        super().__init__(str(why), why.code)
        self.stops_all = stops_all


async def _asked(
    client: Client, admission: Admission, node: str, foresight: Foresight
) -> tuple[Change, _Refused | None]:
    """Return what would happen to a pod, and the failure if its node would not run it. Raises _Refused."""
    planned, refusal, stops_all = await plan_of_manifest(client, admission, node, foresight)
    why = _Refused(refusal, stops_all=stops_all) if refusal is not None else None
    if why is not None and planned.get("error"):
        raise why
    follows = planned["change"] == "create" and "images" in planned
    return Change.FOLLOWS if follows else _WORDS[planned["change"]], why


async def _compared(client: Client, pod: Pod) -> Change:
    """Compare a pod with the existing one. Raises Failure if the existing pod does not answer."""
    fetched = await TemporalPods(client).read(pod.metadata.namespace, pod.metadata.name)
    if fetched is None:
        return Change.CREATED
    if require_answer(fetched).pod.metadata.deletion_timestamp is not None:
        return Change.FOLLOWS
    same = not (spec_differs(fetched.pod, pod) or metadata_differs(fetched.pod, pod))
    return Change.UNCHANGED if same else Change.CONFIGURED
