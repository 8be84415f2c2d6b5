"""Cases: a manifest and its expected results. A case is tried by `syncpod apply`, then by checks of the pods."""

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
    """A manifest that was applied, with the command's output and the pods."""

    node: Node
    namespace: str
    said: Said
    pods: tuple[RunningPod, ...] = ()
    """In the order of its documents."""

    @property
    def pod(self) -> RunningPod:
        """The first pod, which is mostly the only one."""
        return self.pods[0]


Check = Callable[[Applied], Awaitable[str]]
"""Waits until something is as described, and returns a phrase about its finding. Raises NotSo if it finds something
else."""


_TRIES = 5

Around = Callable[[Applied, str], AbstractAsyncContextManager[str]]
"""Sets something up for a manifest: gets the last of the case's `given` and the text; yields the text to apply."""


@dataclass(frozen=True)
class Case:
    """A manifest, and the checks of its documentation's statements."""

    path: str
    """The manifest's path in its directory."""
    describes: str
    """Its effect by its documentation, in a sentence."""
    checks: tuple[Check, ...]
    page: str = ""
    """The page that says so, below kubernetes.io/docs; "" for a manifest that describes itself."""
    given: tuple[str | dict[str, Any], ...] = ()
    """The things that are applied before it: paths of other manifests, and objects that its page makes in other
    ways."""
    elsewhere: str = ""
    """The part of the description that a kubelet alone does not do, but other parts of a cluster."""
    around: Around | None = None
    """Sets up things that are no objects, for as long as the manifest's pods exist."""

    @property
    def namespace(self) -> str:
        """A namespace that no other case has, made from the path."""
        return self.path.rpartition(".")[0].replace("/", "-").lower()[-63:].strip("-")


@dataclass(frozen=True)
class Manifests:
    """The manifests of a directory."""

    directory: Path
    cases: tuple[Case, ...]
    localized: Callable[[str, str], str] = field(default=lambda text, _namespace: text)
    """Turns a manifest's text into the text to apply, given the namespace of its case."""


class Outcome(StrEnum):
    """The result of applying a manifest."""

    AS_DESCRIBED = "as described"
    AS_ON_A_NODE = "as on a node alone"
    """It runs as on a kubelet alone; the rest of the description is the work of other parts of a cluster."""
    REFUSED = "refused"
    DIFFERS = "differs"


@dataclass(frozen=True)
class Row:
    """One manifest's line in the table of results."""

    path: str
    outcome: Outcome
    seen: str
    """The observation, in one line."""

    @classmethod
    def of(cls, case: Case, outcome: Outcome, seen: str) -> Self:
        """Make a row; line breaks in `seen` are replaced by a sign."""
        return cls(case.path, outcome, " ⏎ ".join(seen.strip().splitlines()))


async def come_to(case: Case, node: Node, manifests: Manifests) -> Row:
    """Apply a manifest and its `given`, run its checks, and delete its pods. A failed check gives the row DIFFERS."""

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
        sentence = re.sub(rf"\b{re.escape(series)}\.\S+", series, str(refused))  # the same for each release
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
    with contextlib.suppress(ValueError):  # a text that cannot be parsed makes no pods
        documents = load_documents(text)
        pods = [node.pod(case.namespace, each.metadata.name) for each in documents if isinstance(each, Pod)]
    for _ in range(_TRIES):
        said = await node.syncpod("apply", "-f", str(path), "--namespace", case.namespace)
        if said.code != 1:  # 1: a busy node did not answer in time, and the command asks to apply again
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
