"""How workflows call the functions of their worker; `syncpod.messages.worker_functions` names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from temporalio import workflow


def worker_function(name: str) -> Callable[..., Any] | None:
    """Return the worker's function of this name; None during a replay, or where the worker has none.

    Replay: a replay calls none. So no function may have the workflow give a command or change its state.
    """
    if workflow.unsafe.is_replaying():
        return None
    return workflow.extern_functions().get(name)
