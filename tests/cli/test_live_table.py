"""A table that a terminal redraws in place: within its height, with rows that need attention first."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from syncpod.api.listed import ListedPod
from syncpod.api.views.pod_columns import HEADER
from syncpod.api.views.text import Columns
from syncpod.cli.view.live_table import LiveTable, summed, within
from syncpod.cli.view.rows import Row, coloured_lines, row_of


def listed(name: str, *, ready: bool = True, phase: str = "Running", waiting: str = "") -> Row:
    state: dict[str, Any] = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    if phase == "Succeeded":
        state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    status = {"phase": phase, "containerStatuses": [{"name": "app", "ready": ready, "restartCount": 0, "state": state}]}
    return row_of(
        ListedPod(
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"containers": [{"name": "app"}]},
                "status": status,
            }
        )
    )


def names(pods: list[Row]) -> list[str]:
    return [one.name for one in pods]


def drawn(pods: list[Row], *, height: int, times: int = 1) -> str:
    """The output that a terminal of this height gets."""
    sent = io.StringIO()
    console = Console(file=sent, force_terminal=True, width=60, height=height, highlight=False)

    def lines(chosen: Sequence[Row], table: Columns) -> list[str]:
        return coloured_lines(HEADER, chosen, stream=sent, table=table)

    with LiveTable(lines, console) as live:
        for _ in range(times):
            live.show(pods)
    return sent.getvalue()


def test_what_fits_is_shown_whole() -> None:
    pods = [listed("a"), listed("b", ready=False)]
    assert within(pods, 2) == (pods, [])


def test_pods_that_run_well_are_left_out_first() -> None:
    pods = [listed("a"), listed("b"), listed("c", waiting="CrashLoopBackOff"), listed("d"), listed("e", ready=False)]
    shown, left_out = within(pods, 4)
    assert (names(shown), names(left_out)) == (["a", "c", "e"], ["b", "d"])
    assert summed(left_out) == "… 2 more: 2 Running"
    shown, left_out = within([*pods, listed("f", phase="Succeeded", ready=False)], 3)
    assert (names(shown), summed(left_out)) == (["c", "e"], "… 4 more: 3 Running, 1 Completed")


def test_of_rows_without_a_status_the_first_are_shown_and_the_others_counted() -> None:
    rows = [Row((f"n{number}", "Ready"), {"metadata": {"name": f"n{number}"}}) for number in range(5)]
    shown, left_out = within(rows, 3)
    assert (names(shown), summed(left_out)) == (["n0", "n1"], "… 3 more")


@pytest.mark.parametrize("room", [1, 0, -5])
def test_a_terminal_without_room_shows_numbers_alone(room: int) -> None:
    assert within([listed("a"), listed("b")], room)[0] == []


def screen(sent: str) -> list[str]:
    """The final screen of a terminal with unlimited height."""
    lines, at = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", sent):
        if part == "\n":
            at += 1
            lines += [""] * (at + 1 - len(lines))
        elif part == "\x1b[1A":
            at -= 1
        elif part == "\x1b[2K":
            lines[at] = ""
        elif part not in ("\r", "\x1b[?25l", "\x1b[?25h") and not part.endswith("m"):
            assert not part.startswith("\x1b"), part
            lines[at] += part
    return lines


@pytest.mark.parametrize("count", [1, 5, 500])
def test_a_crowd_is_drawn_in_place_and_stays_within_the_terminal(count: int) -> None:
    pods = [listed(f"pod-{number}") for number in range(count)]
    once, thrice = (screen(drawn(pods, height=20, times=times)) for times in (1, 3))
    assert thrice == once
    assert len(once) == min(count + 2, 20), "and the line of the cursor"
    assert (once[0].split()[0], once[1].split()[0], once[-1]) == ("NAME", "pod-0", "")
    assert ("more: " in once[-2]) == (count == 500)
