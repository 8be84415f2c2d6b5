"""Doing several things at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from syncpod.cli.failure import Failure, together


async def do_all(deeds: Sequence[Coroutine[Any, Any, None]], *, at_once: int) -> None:
    """Await all coroutines, at most `at_once` at a time; a failure of one does not stop the others.

    When all have ended, raises one Failure for all of their Failures. Any other exception is raised unchanged.
    """
    slots = asyncio.Semaphore(at_once)

    async def do(deed: Coroutine[Any, Any, None]) -> None:
        async with slots:
            await deed

    try:
        results = await asyncio.gather(*map(do, deeds), return_exceptions=True)
    finally:
        for deed in deeds:
            deed.close()  # after Ctrl-C some have not been awaited, and Python would warn
    failures = []
    for result in results:
        if isinstance(result, Failure):
            failures.append(result)
        elif result is not None:
            raise result
    if failures:
        raise together(failures, done=len(failures) < len(deeds))
