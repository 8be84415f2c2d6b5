"""Names of a fleet's objects for completion, read from the fleet's server."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn

from syncpod.api.field_selector import FieldSelector
from syncpod.cli.input.arguments import read_selector
from syncpod.cli.listing import selecting
from syncpod.cli.temporal import fleet, fleet_lists

if TYPE_CHECKING:
    from temporalio.client import Client

_PATIENCE: Final = 2.0
"""Seconds until a server that does not answer is given up: somebody waits for the next prompt."""


def keys(kind: str, namespace: str | None, state_dir: str) -> list[tuple[str, str]]:
    """Return namespace and name of each object of a kind; `namespace` None = all. The namespace of a node is "".

    Raises TimeoutError if the server does not answer soon, BadInput, and Failure.
    """
    form = selecting(namespace, read_selector(""), FieldSelector())

    async def work(client: Client) -> list[tuple[str, str]]:
        return [row.key for row in (await fleet_lists.find(client, kind, (), form)).rows]

    with _at_most(_PATIENCE):
        return fleet.run(work, state_dir=state_dir)


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError if the block takes longer, also in a call of the SDK that cannot be given a limit."""

    def end(*_: Any) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
