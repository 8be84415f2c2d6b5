"""Doing several things at once, and reporting their failures together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from syncpod.cli.failure import BAD_INPUT, FAILED, Failure


def together(failures: Sequence[Failure], *, done: bool) -> Failure:
    """Return one Failure with the lines of all. It is BAD_INPUT only if each is, and nothing else was `done`."""
    is_bad_input = not done and all(failure.code == BAD_INPUT for failure in failures)
    return Failure("\n".join(map(str, failures)), BAD_INPUT if is_bad_input else FAILED)


async def do_all(deeds: Sequence[Coroutine[Any, Any, None]], *, at_once: int) -> None:
    """Await all deeds, `at_once` at a time; one that fails stops no other.

    When all have ended, raises one Failure for those that failed; any other exception is raised as it is.
    """
    slots = asyncio.Semaphore(at_once)

    async def do(deed: Coroutine[Any, Any, None]) -> None:
        async with slots:
            await deed

    try:
        results = await asyncio.gather(*map(do, deeds), return_exceptions=True)
    finally:
        for deed in deeds:
            deed.close()  # Ctrl-C may come before its turn
    failures = []
    for result in results:
        if isinstance(result, Failure):
            failures.append(result)
        elif result is not None:
            raise result
    if failures:
        raise together(failures, done=len(failures) < len(deeds))
