"""The work of ``syncpod create``: create ConfigMaps and Secrets on this machine's node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from syncpod.api.label_selector import Selector
from syncpod.cli.console import say
from syncpod.cli.failure import AlreadyExists, BadInput
from syncpod.cli.input.manifests import Manifests
from syncpod.cli.machine.object_store import find, saying_what_failed, store_to_write
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pods import read_pod
from syncpod.cli.view.documents import print_documents
from syncpod.objects import admit_object, ref_of
from syncpod.pod import PodInvalid, pod_to_wire

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.pod import ConfigMap, Secret


def existing_pods(manifests: Manifests) -> list[str]:
    """Return a sentence for each pod of the manifests that exists."""

    async def work(client: Client) -> list[str]:
        metas = [admission.pod.metadata for admission in manifests.pods]
        found = await asyncio.gather(*(read_pod(client, meta.namespace, meta.name) for meta in metas))
        return [
            str(AlreadyExists("pods", meta.name, meta.namespace))
            for meta, fetched in zip(metas, found, strict=True)
            if fetched is not None
        ]

    return session.run(work) if manifests.pods else []


def existing_objects(manifests: Manifests) -> list[str]:
    """Return a sentence for each ConfigMap and Secret of the manifests that exists."""
    named = [(taken.object.kind, taken.object.metadata) for taken in manifests.objects]
    return [
        str(AlreadyExists(f"{kind.lower()}s", meta.name, meta.namespace))
        for kind, meta in named
        if find(kind, (meta.name,), meta.namespace, Selector())[0]
    ]


def create_object(wanted: ConfigMap | Secret, immutable: bool, dry_run: str, output: str) -> None:
    """Create an object, or only print it. Raises BadInput, and Failure if it exists already."""
    if dry_run not in ("none", "client"):
        raise BadInput(f"--dry-run: must be none or client, not {dry_run}")
    if output not in ("", "json", "yaml", "name"):
        raise BadInput(f"--output: must be json, yaml, name, not {output}")
    if immutable:
        wanted = wanted.model_copy(update={"immutable": True})
    kind, name = wanted.kind.lower(), wanted.metadata.name
    try:
        wanted = admit_object(wanted).object
    except PodInvalid as wrong:
        raise BadInput("\n".join(f"{kind} {name}: {problem}" for problem in wrong.problems)) from None
    shown: ConfigMap | Secret | None = wanted
    if dry_run == "none":
        with saying_what_failed():
            store = store_to_write()
            if not store.add(wanted):
                raise AlreadyExists(f"{kind}s", name, wanted.metadata.namespace)
            shown = store.get(ref_of(wanted))
    if shown is not None:
        _print(shown, output, dry_run)


def _print(made: ConfigMap | Secret, output: str, dry_run: str) -> None:
    kind, name = made.kind.lower(), made.metadata.name
    if output in ("json", "yaml"):
        print_documents([pod_to_wire(made)], output, single=True)
    elif output == "name":
        say(f"{kind}/{name}")
    else:
        say(f"{kind}/{name} created" + (" (dry run)" if dry_run == "client" else ""))
