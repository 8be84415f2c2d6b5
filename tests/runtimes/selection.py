"""Which tests run on which runtime.

A test that could run on several runs on one of them: the first of `PREFERRED` that this machine has. A test that
depends on the runtime carries `@pytest.mark.every_runtime("why")`, or its module does as `pytestmark`: it runs on all.
With `one_containerd=True` it runs on all but the older containerd, where the versions of containerd do not differ.

`SYNCPOD_RUNTIMES` asks for something else: `all` is every test on every runtime that it can run on, `crio` (or several
names with commas) is every test on these runtimes, and on no other.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Sequence

import pytest

from tests.runtimes import containerd
from tests.runtimes.require import Missing

RUNTIMES = ("embedded", "containerd16", "containerd24", "crio", "containerd23")
"""What the suite calls the runtimes."""

PREFERRED = ("containerd24", "containerd16", "embedded", "crio")
"""The runtimes by how much a test on them says: the newest of those that people run in production comes first."""

ONLY_IF_ASKED = frozenset({"containerd23"})
"""Runtimes on which a test runs only if `SYNCPOD_RUNTIMES` asks for them, or if it could run on no other: they differ
little from another one."""

ALL = "all"
"""What `SYNCPOD_RUNTIMES` says for every test on every runtime."""


def runtime_of(item: pytest.Item) -> str:
    """The runtime that a test is run on, being run on several; "" for others."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return ""
    return next((value for value in item.callspec.params.values() if value in RUNTIMES), "")


def reason_of(item: pytest.Item) -> str:
    """Why a test runs on every runtime; "" if it runs on one of them. Raises TypeError for a mark without a reason."""
    mark = item.get_closest_marker("every_runtime")
    if mark is None:
        return ""
    if len(mark.args) != 1 or not isinstance(mark.args[0], str) or mark.kwargs not in ({}, {"one_containerd": True}):
        raise TypeError(f'{item.nodeid}: @pytest.mark.every_runtime("why") takes one sentence, and one_containerd=True')
    return mark.args[0]


def is_for_one_containerd(item: pytest.Item) -> bool:
    """Say whether a test that runs on every runtime runs on one containerd only."""
    mark = item.get_closest_marker("every_runtime")
    return mark is not None and bool(mark.kwargs)


def asked_for() -> str:
    """What `SYNCPOD_RUNTIMES` says; "" for the usual run."""
    return os.environ.get("SYNCPOD_RUNTIMES", "")


def runs(
    runtime: str,
    *,
    among: Collection[str],
    everywhere: bool,
    one_containerd: bool = False,
    here: Sequence[str],
    asked: str = "",
) -> bool:
    """Say whether a test is to run on `runtime`.

    It could run on those in `among`, and is to run on all of them if `everywhere`, of the containerds on one of them
    if `one_containerd`. This machine has those that are `here`, the preferred one first. `asked` is what
    `SYNCPOD_RUNTIMES` says.
    """
    if asked:
        return asked == ALL or runtime in {name.strip() for name in asked.split(",")}
    if runtime in ONLY_IF_ASKED:
        return ONLY_IF_ASKED.issuperset(among)
    if everywhere and one_containerd and runtime in _CONTAINERDS:
        return runtime == next(name for name in (*here, *PREFERRED) if name in among and name in _CONTAINERDS)
    if everywhere:
        return True
    # Where the machine has none of them, the test still appears, as skipped, with what is missing.
    return runtime == next(name for name in (*here, *PREFERRED) if name in among)


@functools.cache
def installed() -> tuple[str, ...]:
    """The runtimes of this machine among which one is preferred, in that order. The embedded one is always there."""
    return tuple(name for name in PREFERRED if name not in _CONTAINERDS or _is_installed(_CONTAINERDS[name]))


def apply(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of the tests collected those that are not to run on their runtime."""
    among: dict[str, set[str]] = {}
    for item in items:
        among.setdefault(_function(item), set()).add(runtime_of(item))
    kept, left_out = _divided(items, among)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _divided(items: Iterable[pytest.Item], among: dict[str, set[str]]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        runtime = runtime_of(item)
        is_kept = not runtime or runs(
            runtime,
            among=among[_function(item)],
            everywhere=bool(reason_of(item)),
            one_containerd=is_for_one_containerd(item),
            here=installed(),
            asked=asked_for(),
        )
        (kept if is_kept else left_out).append(item)
    return kept, left_out


def _function(item: pytest.Item) -> str:
    """A test's id without its parameters."""
    return item.nodeid.partition("[")[0]


_CONTAINERDS = {"containerd16": "1.6", "containerd24": "2.4", "containerd23": "2.3"}


def _is_installed(version: str) -> bool:
    try:
        containerd.installed(version)
    except Missing:
        return False
    return True
