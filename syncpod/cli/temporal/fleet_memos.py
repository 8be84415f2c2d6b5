"""Reads the memos of a fleet's workflows. Some may be unreadable: anybody who reaches the server may forge one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

from temporalio.client import Client

from syncpod.cli.console import remark
from syncpod.messages.encryption import Undecipherable
from syncpod.messages.identity import Message

_RPC: Final = timedelta(seconds=10)
_Memo = TypeVar("_Memo", bound=Message)


@dataclass(frozen=True)
class UnreadableMemo:
    """A running workflow whose memo cannot be read."""

    workflow_id: str
    why: str
    """Why it cannot be read, as a clause."""


async def running(
    client: Client, workflow: str, memo: str, of: type[_Memo]
) -> list[tuple[str, _Memo | UnreadableMemo]]:
    """Return the memo of each running workflow of a type, with the workflow's id.

    Raises RPCError. Raises Undecipherable if no memo can be read because of the keys, which may be another fleet's.
    """
    query = f"WorkflowType = '{workflow}' AND ExecutionStatus = 'Running'"
    found: list[tuple[str, _Memo | UnreadableMemo]] = []
    undecipherable: Undecipherable | None = None
    async for each in client.list_workflows(query, rpc_timeout=_RPC):
        try:
            found.append((each.id, of.model_validate(await each.memo_value(memo, {}))))
        except Undecipherable as why:
            undecipherable = why
            found.append((each.id, UnreadableMemo(each.id, str(why))))
        except (ValueError, KeyError, RuntimeError):  # no memo that our workers would write
            found.append((each.id, UnreadableMemo(each.id, "it is not what the fleet's workers write")))
    if undecipherable is not None and all(isinstance(each, UnreadableMemo) for _, each in found):
        raise undecipherable
    return found


def readable(found: Sequence[tuple[str, _Memo | UnreadableMemo]]) -> list[_Memo]:
    """Return the memos that can be read, and name in a note each workflow that is left out."""
    for _, each in found:
        if isinstance(each, UnreadableMemo):
            remark(f"Note: without {each.workflow_id}, whose memo cannot be read: {each.why}")
    return [each for _, each in found if not isinstance(each, UnreadableMemo)]
