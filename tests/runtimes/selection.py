"""Chooses the runtimes on which each test runs.

A test that could run on several runtimes runs on one of them: the first of `PREFERRED` that this machine has. A test
that depends on the runtime has the mark `@pytest.mark.every_runtime("why")`, itself or by its module's `pytestmark`. It
runs on all runtimes except the second of `ALIKE`; with `one_containerd=True` on only one containerd, if the versions do
not differ for it; with `each_containerd=True` on every containerd.

`SYNCPOD_RUNTIMES` changes that: with `all`, every test runs on every runtime that it supports; with `crio` (or several
names, separated by commas), every test runs on these runtimes only.
"""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Collection, Iterable, Mapping, Sequence

import pytest

from tests.runtimes import containerd
from tests.runtimes.require import Missing

RUNTIMES = ("embedded", "containerd16", "containerd24", "crio", "containerd23")
"""The names of the runtimes in the tests."""

PREFERRED = ("containerd23", "containerd24", "containerd16", "embedded", "crio")
"""The runtimes in the order of preference: the containerd with long-term support comes first."""

CONTAINERDS: Mapping[str, str] = {"containerd23": "2.3", "containerd24": "2.4", "containerd16": "1.6"}
"""The series of each containerd, the preferred one first. A test that needs a containerd runs on one of them."""

ALIKE = ("containerd23", "containerd24")
"""Containerds that differ little. A test of every runtime runs on the first of them that suits the test and that this
machine has, unless its mark asks for each containerd."""


class Containerds(enum.Enum):
    """The containerds on which a test of every runtime runs; the value is the argument of its mark."""

    ONE = "one_containerd"
    THAT_DIFFER = ""
    EACH = "each_containerd"


ALL = "all"
"""The value of `SYNCPOD_RUNTIMES` for every test on every runtime."""


def runtime_of(item: pytest.Item) -> str:
    """The runtime of a test that runs on several; "" for other tests."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return ""
    return next((value for value in item.callspec.params.values() if value in RUNTIMES), "")


def reason_of(item: pytest.Item) -> str:
    """Why a test runs on every runtime; "" if it runs on one. Raises TypeError for a mark without a reason."""
    mark = item.get_closest_marker("every_runtime")
    if mark is None:
        return ""
    if len(mark.args) != 1 or not isinstance(mark.args[0], str):
        raise TypeError(f'{item.nodeid}: @pytest.mark.every_runtime("why") takes one sentence')
    return mark.args[0]


def containerds_of(item: pytest.Item) -> Containerds:
    """The containerds of a test that runs on every runtime. Raises TypeError for unknown arguments of the mark."""
    mark = item.get_closest_marker("every_runtime")
    if mark is None or not mark.kwargs:
        return Containerds.THAT_DIFFER
    if mark.kwargs not in ({Containerds.ONE.value: True}, {Containerds.EACH.value: True}):
        raise TypeError(f"{item.nodeid}: every_runtime takes one_containerd=True or each_containerd=True")
    (value,) = mark.kwargs
    return Containerds(value)


def asked_for() -> str:
    """The value of `SYNCPOD_RUNTIMES`; "" for a usual run."""
    return os.environ.get("SYNCPOD_RUNTIMES", "")


def runs(
    runtime: str,
    *,
    among: Collection[str],
    everywhere: bool,
    containerds: Containerds = Containerds.THAT_DIFFER,
    here: Sequence[str],
    asked: str = "",
) -> bool:
    """Return whether a test shall run on `runtime`.

    It could run on the runtimes in `among`. If `everywhere`, it is to run on all of them, apart from containerds that
    `containerds` leaves out. `here` are the runtimes of this machine, the preferred one first. `asked` is the value of
    `SYNCPOD_RUNTIMES`.
    """
    if asked:
        return asked == ALL or runtime in {name.strip() for name in asked.split(",")}
    if not everywhere:
        instead = among
    elif containerds is Containerds.ONE and runtime in CONTAINERDS:
        instead = [name for name in among if name in CONTAINERDS]
    elif containerds is Containerds.THAT_DIFFER and runtime in ALIKE:
        instead = [name for name in among if name in ALIKE]
    else:
        return True
    # Where the machine has none of them, the test still appears: it is skipped, with the missing part.
    return runtime == next(name for name in (*here, *PREFERRED) if name in instead)


@functools.cache
def installed() -> tuple[str, ...]:
    """The runtimes of this machine in the order of preference. The embedded one always exists."""
    return tuple(name for name in PREFERRED if name not in CONTAINERDS or _is_installed(CONTAINERDS[name]))


def apply(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the collected tests that shall not run on their runtime."""
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
            containerds=containerds_of(item),
            here=installed(),
            asked=asked_for(),
        )
        (kept if is_kept else left_out).append(item)
    return kept, left_out


def _function(item: pytest.Item) -> str:
    """A test's id without its parameters."""
    return item.nodeid.partition("[")[0]


def _is_installed(version: str) -> bool:
    try:
        containerd.installed(version)
    except Missing:
        return False
    return True
