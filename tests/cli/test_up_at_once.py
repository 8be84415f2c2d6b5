"""Several `up` at the same time on a new state directory: one starts each process, and the others find it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from syncpod.cli.machine import state_directory
from syncpod.settings.directories import PLACE_FILE
from tests.cli.conftest import Result, typed
from tests.cli.machine import EMBEDDED, machine


def test_of_several_at_once_all_find_what_one_has_started(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The settings that the others have read are older than those that the node was started with."""
    with machine(EMBEDDED, request, tmp_path) as environ:
        del environ["SYNCPOD_LOG_DIR"]  # so that it is the default, which the node keeps all the same
        del environ["SYNCPOD_NODE"]

        def up(more: tuple[str, ...]) -> Result:
            return typed("up", "--simulate", "--node", "n1", *more, environ=environ)

        with ThreadPoolExecutor() as at_once:
            results = list(at_once.map(up, [(), ("--node-labels", "a=b"), ()]))
        starts = [result.err.count("worker started") for result in results]
        assert sorted(starts) == [0, 0, 1], results
        for result in (results[0], results[2]):
            assert (result.code, result.out.count("\nnode       n1\n")) == (0, 1), result.err
        refused = results[1]  # unless it was the one that started the worker, which then has the labels
        if not starts[1]:
            assert refused.code == 1 and "was started without --node-labels, not with --node-labels a=b" in refused.err


def test_commands_that_find_a_new_directory_at_once_all_prepare_it(tmp_path: Path) -> None:
    for number in range(40):
        state = tmp_path / str(number)
        with ThreadPoolExecutor(8) as at_once:
            list(at_once.map(state_directory.prepare, [state] * 8))
        assert {each.name for each in state.iterdir()} == {state_directory.MARK, PLACE_FILE, "log"}
