"""Text from pods, images or runtimes cannot control a terminal or forge a table row.

Holds: No text from a pod, an image or a runtime can control the terminal.
"""

from __future__ import annotations

import io
import sys

import pytest
import yaml

from syncpod.api.views.text import columns
from syncpod.cli.console import harmless, paint, remark, say
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.view.documents import print_documents
from syncpod.cli.view.history_lines import lines
from syncpod.cli.view.progress import hindrances
from syncpod.cli.view.rows import coloured_lines, row_of
from syncpod.journal.records import HistoryEntry
from tests.cli.pods import pod, waiting
from tests.journal.records import NOON

TRAP = "a\x1b]0;title\x07\x1b[2J\rb\x9b31m\u202ec\nforged"
"""A title, a cleared screen, a carriage return, an 8-bit control sequence, right-to-left text, and a newline."""
HARMLESS = r"a\x1b]0;title\x07\x1b[2J\rb\x9b31m\u202ec\nforged"


class Terminal(io.StringIO):
    """A stream that accepts colours."""

    def isatty(self) -> bool:
        return True


def in_colour(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard output a terminal with colours. (pytest replaces it between a fixture and its test.)"""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    return terminal


def test_messages_have_no_terminal_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"one\ttwo\n{TRAP}")
    remark(TRAP)
    said = capsys.readouterr()
    lines_ = HARMLESS.replace(r"\n", "\n")
    assert (said.out, said.err) == (f"one\ttwo\n{lines_}\n", f"{lines_}\n")


def test_only_our_colours_are_printed_and_only_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = in_colour(monkeypatch)
    say(f"{paint('Running', 'green')} \x1b[2J")
    assert terminal.getvalue() == "\x1b[32mRunning\x1b[0m \\x1b[2J\n"
    assert harmless("\x1b[32m", io.StringIO()) == "\\x1b[32m"
    assert harmless("a \x1b[31mlog\nnext", terminal) == "a \x1b[31mlog\x1b[0m\nnext", "a colour ends with its line"


def test_a_table_cell_cannot_forge_rows_or_shift_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    in_colour(monkeypatch)
    assert columns([["NAME", "WHY"], [TRAP, "x"]]) == [f"NAME{' ' * (len(HARMLESS) - 4)}   WHY", f"{HARMLESS}   x"]
    web = pod(waiting(TRAP, message=TRAP), phase="Pending")
    head, row = coloured_lines(
        ("NAME", "READY", "STATUS", "RESTARTS", "AGE"), [row_of(FetchedPod(web, {}, current=True).listed)]
    )
    assert f"\x1b[31m{HARMLESS}\x1b[0m" in row
    assert head.index("RESTARTS") == row.replace("\x1b[31m", "").replace("\x1b[0m", "").index("0   ", 10)
    (_, line) = lines([HistoryEntry(NOON, "signal", TRAP)])
    assert HARMLESS in line


def test_the_history_says_which_instance_has_ended() -> None:
    again, first = lines([HistoryEntry(NOON, "exit", "web", restart=each) for each in (1, 0)], headers=False)
    assert "web (restart 1)" in again and "restart" not in first


def test_the_reason_why_a_pod_does_not_start_is_one_line() -> None:
    web = pod({"name": "app", "state": {"waiting": {"reason": "ErrImagePull", "message": TRAP}}}, phase="Pending")
    (line,) = hindrances([FetchedPod(web, {}, current=True)])
    assert line.isprintable() and HARMLESS in line


@pytest.mark.parametrize("output", ["custom-columns=A:.a", "json", "yaml"])
def test_documents_have_no_terminal_control_characters(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_documents([{"a": TRAP}], output, single=True)
    said = capsys.readouterr().out
    assert all(line.isprintable() for line in said.split("\n")) and "forged" in said
    if output in ("json", "yaml"):
        assert yaml.safe_load(said) == {"a": TRAP}


def test_jsonpath_output_is_raw_in_a_pipe_and_escaped_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_documents([{"a": TRAP}], "jsonpath={.a}", single=True)
    assert capsys.readouterr().out == TRAP
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_documents([{"a": TRAP}], "jsonpath={.a}", single=True)
    assert "\x1b" not in terminal.getvalue()
