"""What a manifest ought to come to, and what it comes to: from `syncpod apply` to the state that is described."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from qa.manifests.command_line import Said
from qa.manifests.node import Node, NotSo, RunningPod, Unsupported
from syncpod.pod import Pod, load_documents


@dataclass(frozen=True)
class Applied:
    """A manifest that was applied."""

    node: Node
    namespace: str
    said: Said
    pods: tuple[RunningPod, ...] = ()
    """In the order of its documents."""

    @property
    def pod(self) -> RunningPod:
        """The only pod, or the first."""
        return self.pods[0]


Check = Callable[[Applied], Awaitable[str]]
"""Waits until something is as described, and says what it has seen; raises NotSo where it is otherwise."""


_TRIES = 5

Around = Callable[[Applied, str], AbstractAsyncContextManager[str]]
"""Is told what was given to a manifest, and the manifest's text; yields the text to be applied."""


@dataclass(frozen=True)
class Case:
    """A manifest and what is described of it."""

    path: str
    """Of the manifest, in its directory."""
    describes: str
    """What its documentation says becomes of it, in a sentence."""
    checks: tuple[Check, ...]
    page: str = ""
    """Where it says so, below kubernetes.io/docs; "" for a manifest that describes itself."""
    given: tuple[str | dict[str, Any], ...] = ()
    """What it needs to be there: manifests beside it, and objects that its page has made otherwise."""
    elsewhere: str = ""
    """What of the description comes from other parts of a cluster than a node, so that no kubelet alone does it."""
    around: Around | None = None
    """What is not an object, and is there for as long as the manifest's pods are."""

    @property
    def namespace(self) -> str:
        """One that no other case has."""
        return self.path.rpartition(".")[0].replace("/", "-").lower()[-63:].strip("-")


@dataclass(frozen=True)
class Manifests:
    """The manifests of a directory."""

    directory: Path
    cases: tuple[Case, ...]
    localized: Callable[[str, str], str] = field(default=lambda text, _namespace: text)
    """Is given a manifest's text and the namespace of its case, and returns the text to be applied."""


class Outcome(StrEnum):
    """What became of a manifest."""

    AS_DESCRIBED = "as described"
    AS_ON_A_NODE = "as on a node alone"
    """It runs as a kubelet would run it; what is described besides is for other parts of a cluster to do."""
    REFUSED = "refused"
    DIFFERS = "differs"


@dataclass(frozen=True)
class Row:
    """One manifest's line in the table of results."""

    path: str
    outcome: Outcome
    seen: str
    """In one line."""

    @classmethod
    def of(cls, case: Case, outcome: Outcome, seen: str) -> Self:
        """The row of what was seen, in as many lines as it has."""
        return cls(case.path, outcome, " ⏎ ".join(seen.strip().splitlines()))


async def come_to(case: Case, node: Node, manifests: Manifests) -> Row:
    """Apply a manifest with what it needs, look at what becomes of it, and delete its pods again."""

    def text_of(path: str) -> str:
        return manifests.localized((manifests.directory / path).read_text(), case.namespace)

    texts = [text_of(each) if isinstance(each, str) else json.dumps(each) for each in case.given]
    text = text_of(case.path)
    applied: list[Applied] = []
    try:
        for number, each in enumerate(texts, 1):
            applied.append(await _apply(node, case, each, f"{case.namespace}-{number}"))
        given = applied[-1] if applied else Applied(node, case.namespace, Said(0, "", ""))
        async with case.around(given, text) if case.around else contextlib.nullcontext(text) as text:
            applied.append(await _apply(node, case, text, case.namespace))
            return await _seen(case, applied[-1], applied[:-1])
    except Unsupported as refused:
        series = node.engine.runtime.series
        sentence = re.sub(rf"\b{re.escape(series)}\.\S+", series, str(refused))  # any release of it says so
        return Row.of(case, Outcome.REFUSED, f"{sentence} (in the pod's status or events)")
    except NotSo as otherwise:
        return Row.of(case, Outcome.DIFFERS, str(otherwise))
    finally:
        await asyncio.gather(*(pod.delete() for each in applied for pod in each.pods))


async def _apply(node: Node, case: Case, text: str, name: str) -> Applied:
    suffix = "json" if text.startswith("{") else "yaml"
    path = node.directory / f"{name}.{suffix}"
    path.write_text(text)
    pods: list[RunningPod] = []
    with contextlib.suppress(ValueError):  # what cannot be read makes no pods
        documents = load_documents(text)
        pods = [node.pod(case.namespace, each.metadata.name) for each in documents if isinstance(each, Pod)]
    for _ in range(_TRIES):
        said = await node.syncpod("apply", "-f", str(path), "--namespace", case.namespace)
        if said.code != 1:  # a busy node may be too slow to answer; the command then says to apply it again
            break
    refused = said.refusal(str(path))
    return Applied(
        node,
        case.namespace,
        Said(said.code, said.out, refused or said.err),
        tuple(pods) if said.code == 0 else (),
    )


async def _seen(case: Case, applied: Applied, given: list[Applied]) -> Row:
    if applied.said.code == 2:
        return Row.of(case, Outcome.REFUSED, applied.said.err)
    refused = [each.said.err for each in given if each.said.code == 2]
    if refused:
        return Row.of(case, Outcome.REFUSED, "; ".join(refused))
    wrong = [each.said.err for each in (*given, applied) if each.said.code]
    if wrong:
        return Row.of(case, Outcome.DIFFERS, "; ".join(wrong))
    seen = [await check(applied) for check in case.checks]
    remarks = [*applied.said.warnings, *filter(None, [case.elsewhere])]
    outcome = Outcome.AS_ON_A_NODE if remarks else Outcome.AS_DESCRIBED
    return Row.of(case, outcome, "; ".join([*filter(None, seen), *remarks]))
