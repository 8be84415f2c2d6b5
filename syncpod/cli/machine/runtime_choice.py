"""Chooses the runtime that ``up`` uses."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.cli.failure import BadInput
from syncpod.cli.machine import runtime_process
from syncpod.cli.machine.settings import kept_settings
from syncpod.cri.client import CriClient
from syncpod.cri.endpoint import VARIABLE, NoRuntime, candidates, find_endpoint, socket_path
from syncpod.cri.errors import CriError
from syncpod.node.inventory import has_pods
from syncpod.settings.directories import STATE_DIR
from syncpod.settings.kept import KeptSettings, is_same_runtime, kept_runtime_missing, other_name, other_runtime
from syncpod.settings.node import NodeSettings
from syncpod.settings.process_records import RUNTIME_FILE as RUNTIME_RECORD
from syncpod.settings.process_records import recorded_runtime, running_runtime
from syncpod.settings.worker_record import serving

WITHOUT_ISOLATION: Final = "the embedded runtime runs pods as plain processes of this machine, without isolation"
SIMULATED: Final = "the embedded runtime simulates: containers are timers, and nothing runs"
_FLAG: Final = "--runtime-endpoint"
_PATIENCE_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Choice:
    """The runtime to use."""

    endpoint: str
    """Its socket; "" = the embedded runtime."""
    simulated: bool = False
    """Whether it is the embedded runtime, and only simulates containers."""
    why: str = ""
    """A line for the user about the embedded runtime, if it has to be started."""

    @property
    def embedded(self) -> bool:
        """Whether it is the state directory's embedded runtime."""
        return not self.endpoint


def choose(here: NodeSettings, *, asked: str = "", embedded: bool = False, simulate: bool = False) -> Choice:
    """Return the runtime that the flag (`asked`) or the environment names, else the node's, else one of this machine.

    The node's runtime is that of the worker that serves the state directory, or of the node's last start, or the
    embedded one if it has pods. A node without one gets containerd or CRI-O; if neither answers, the embedded one.
    Starts nothing. Raises BadInput if the runtime does not answer, or if the node has pods on another runtime.
    """
    if asked and (embedded or simulate):
        raise BadInput(f"either {_FLAG} or the embedded runtime")
    kept, worker = kept_settings(here.state_dir), serving(here.state_dir)
    used = _used(here, worker.endpoint if worker else kept.endpoint)
    if embedded or simulate:
        if worker is None and _has_lost_record(here, kept):
            used = Choice("", simulate, SIMULATED if simulate else WITHOUT_ISOLATION)
        return _own(here, kept, used, simulate=simulate)
    if not here.runtime_endpoint or (kept.endpoint and is_same_runtime(kept, here.runtime_endpoint)):
        if used is not None and not used.embedded and worker is None:
            _require_answer(here, kept)
        return used or _found()
    if used is not None and used.embedded and _is_own(here):
        return used
    named = _named(here.runtime_endpoint, by_flag=bool(asked))
    if used is not None and used.endpoint != named.endpoint:
        _require_no_pods(here, kept, named.endpoint)
    return named


def _own(here: NodeSettings, kept: KeptSettings, used: Choice | None, *, simulate: bool) -> Choice:
    """Return the embedded runtime, which the user asked for. Raises BadInput if the node has pods on another one."""
    wanted = Choice("", simulate, SIMULATED if simulate else f"as asked for: {WITHOUT_ISOLATION}")
    if used is None:
        return wanted
    if not used.embedded:
        _require_no_pods(here, kept, "the embedded runtime")
        return wanted
    if simulate and not used.simulated:
        raise BadInput(
            f"the embedded runtime of {here.state_dir} runs real processes: "
            "`syncpod down` first, or name another --state-dir"
        )
    return used


def require_same_name(here: NodeSettings) -> None:
    """Raise BadInput if the state directory's worker or pods belong to another node than `here`."""
    kept, worker = kept_settings(here.state_dir), serving(here.state_dir)
    before = worker.node if worker is not None else kept.node
    if before in ("", here.node):
        return
    if worker is not None or asyncio.run(has_pods(here.state_dir, before, kept.endpoint)):
        raise BadInput(other_name(before, here.state_dir, here.node))


def _has_lost_record(here: NodeSettings, kept: KeptSettings) -> bool:
    """Return whether the node used the directory's embedded runtime, and the runtime's record is missing or damaged."""
    record = recorded_runtime(here.state_dir)
    own = f"unix://{runtime_process.usual_socket(here.state_dir)}"
    return kept.endpoint == own and (record is None or record.endpoint != own)


def _require_answer(here: NodeSettings, kept: KeptSettings) -> None:
    """Raise BadInput if nothing listens at the socket of the node's runtime."""
    try:
        find_endpoint({VARIABLE: kept.endpoint})
    except NoRuntime as missing:
        if _has_lost_record(here, kept):
            file = here.state_dir / RUNTIME_RECORD
            raise BadInput(
                f"{file}: is missing or damaged, so it does not say how the embedded runtime of node {kept.node} was "
                "started: `syncpod up --embedded` starts it again, or `--simulate` if it simulated"
            ) from None
        raise BadInput(kept_runtime_missing(kept, missing.tried[0][1])) from None


def _require_no_pods(here: NodeSettings, kept: KeptSettings, wanted: str) -> None:
    """Raise BadInput if the node has a worker, or pods on its runtime: then it cannot use `wanted` instead."""
    worker = serving(here.state_dir)
    if worker is not None:
        raise BadInput(
            f"the worker of {here.state_dir} runs pods on {worker.endpoint}, not on {wanted}: "
            "`syncpod down` first, or name another --state-dir"
        )
    if asyncio.run(has_pods(here.state_dir, kept.node, kept.endpoint)):
        raise BadInput(other_runtime(kept, wanted))


def _used(here: NodeSettings, workers: str) -> Choice | None:
    """Return the runtime that the state directory's node uses; None if it has used none.

    `workers` is the runtime's socket in the record of its worker or of its last start; "" = not known. If it is not
    known, the embedded runtime is returned if it has the node's pods.
    """
    record = recorded_runtime(here.state_dir)
    if workers and (record is None or workers != record.endpoint):
        return Choice(workers)
    if record is None or not (workers or runtime_process.is_kept(here.state_dir)):
        return None
    what = SIMULATED if record.simulated else WITHOUT_ISOLATION
    return Choice("", record.simulated, f"the embedded runtime has ended: it is started again with its pods; {what}")


def _is_own(here: NodeSettings) -> bool:
    """Return whether the named runtime is the state directory's embedded one."""
    record = recorded_runtime(here.state_dir)
    try:
        return record is not None and socket_path(here.runtime_endpoint or "") == socket_path(record.endpoint)
    except ValueError:
        return False


def _named(endpoint: str, *, by_flag: bool) -> Choice:
    try:
        return Choice(find_endpoint({VARIABLE: endpoint}))
    except NoRuntime as missing:
        raise BadInput(str(missing).replace(f"{_FLAG} or {VARIABLE}", _FLAG if by_flag else VARIABLE)) from None
    except ValueError as wrong:
        raise BadInput(f"{_FLAG if by_flag else VARIABLE}: {wrong}") from None


def _found() -> Choice:
    """Return the first usual runtime that answers a CRI call, else the embedded one with a list of tried sockets."""
    tried = []
    for path in candidates({}):
        try:
            endpoint = find_endpoint({VARIABLE: path})
        except NoRuntime as missing:
            tried += [f"{where} ({reason})" for where, reason in missing.tried]
            continue
        obstacle = asyncio.run(_obstacle(endpoint))
        if obstacle is None:
            return Choice(endpoint)
        tried.append(f"{path} ({obstacle})")
    return Choice("", why=f"no containerd or CRI-O: {', '.join(tried)}; {WITHOUT_ISOLATION}")


async def _obstacle(endpoint: str) -> str | None:
    """Return why this endpoint cannot be used; None if it can. Docker's containerd often has CRI disabled."""
    async with CriClient(endpoint, timeout_seconds=_PATIENCE_SECONDS) as runtime:
        try:
            await runtime.version()
        except CriError as error:
            return f"does not answer: {error.message or error.code}"
    return None


def endpoint_of(state_dir: Path) -> str:
    """Return the socket of the runtime that has the state directory's pods.

    It is the worker's runtime, else that of the node's last start, else the embedded one if it runs, else the one in
    the environment, else one that is found. Raises BadInput if there is none.
    """
    worker = serving(state_dir)
    if worker is not None and worker.endpoint:
        return worker.endpoint
    if kept := kept_settings(state_dir).endpoint:
        return kept
    if (own := running_runtime(state_dir)) is not None:
        return own.endpoint
    try:
        return find_endpoint(os.environ)
    except NoRuntime as missing:
        if os.environ.get(VARIABLE):
            raise BadInput(str(missing)) from None
        tried = ", ".join(f"{path} ({reason})" for path, reason in missing.tried)
        raise BadInput(
            f"no container runtime: neither a worker nor an embedded runtime serves {state_dir} (start them with "
            f"`syncpod up`, or name the state directory of those that run in {STATE_DIR}), nor is one at {tried}"
        ) from None
    except ValueError as wrong:
        raise BadInput(f"{VARIABLE}: {wrong}") from None
