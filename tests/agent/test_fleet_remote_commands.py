"""Remote commands for a fleet: each runs once, output can be read in pieces and read again, and no process is left.

Holds: A command that changes something never runs twice on a node.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from syncpod.agent import own_commands as module
from syncpod.agent.fleet.remote_commands import MOST, RemoteCommands
from syncpod.messages.remote_command import PIECE_BYTES, RemoteCommand, RemoteCommandPiece, to_bytes, to_text
from tests.agent.waiting import until


@pytest.fixture
async def remote_commands(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RemoteCommands]:
    """RemoteCommands whose command is a shell: the words after the first are its script."""
    shell = (sys.executable, "-c", "import os, sys; os.execvp('sh', ['sh', '-c', sys.argv[2]])")
    monkeypatch.setattr(module, "_program", lambda: shell)
    remote_commands = RemoteCommands("n1", os.environ)
    running = asyncio.create_task(remote_commands.run())
    await asyncio.sleep(0)
    yield remote_commands
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def begin(script: str, session: str = "s", command: str = "logs", **more: object) -> RemoteCommand:
    asked = RemoteCommand(session=session, begin=True, asked_at=time.time(), words=(command, script))
    return asked.model_copy(update=more)


def said(piece: RemoteCommandPiece) -> bytes:
    return b"".join(to_bytes(each.data) for each in piece.chunks)


async def to_the_end(remote_commands: RemoteCommands, received: int = 0, session: str = "s") -> tuple[bytes, int]:
    found = bytearray()
    while True:
        piece = await remote_commands.answer(RemoteCommand(session=session, received=received + len(found), wait=20))
        assert len(said(piece)) <= PIECE_BYTES
        found += said(piece)
        if piece.code is not None:
            return bytes(found), piece.code


async def test_output_comes_in_pieces_and_a_piece_can_be_asked_for_again(remote_commands: RemoteCommands) -> None:
    whole = "".join(f"{number}\n" for number in range(1, 100_001)).encode()
    first = await remote_commands.answer(begin("seq 1 100000; exit 3", wait=20))
    again = await remote_commands.answer(begin("seq 1 100000; exit 3", wait=20))
    assert whole.startswith(said(first)) and said(again).startswith(said(first))
    assert await to_the_end(remote_commands, len(said(first))) == (whole[len(said(first)) :], 3)
    assert await to_the_end(remote_commands, len(whole)) == (b"", 3)


async def test_input_is_written_once_however_often_it_is_given(remote_commands: RemoteCommands) -> None:
    await remote_commands.answer(begin("cat", with_input=True))
    one, two = (
        RemoteCommand(session="s", give=True, input_at=at, input=to_text(text), input_ends=at > 0, wait=5)
        for at, text in ((0, b"one "), (4, b"two"))
    )
    for each in (one, one, two, two):
        await remote_commands.answer(each)
    assert await to_the_end(remote_commands) == (b"one two", 0)


async def test_a_command_that_reads_no_more_takes_all_input(remote_commands: RemoteCommands) -> None:
    await remote_commands.answer(begin("exec 0<&-; sleep 0.2; echo done", with_input=True))
    at = 0
    while True:
        data = b"x" * PIECE_BYTES
        piece = await remote_commands.answer(
            RemoteCommand(session="s", give=True, input_at=at, input=to_text(data), wait=5)
        )
        if piece.input_over:
            break
        at = piece.input_taken
    assert await to_the_end(remote_commands) == (b"done\n", 0)


async def test_a_command_that_was_ended_never_begins_again(remote_commands: RemoteCommands, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    await remote_commands.answer(RemoteCommand(session="early", end=True))
    assert "ended before it began" in (await remote_commands.answer(begin(f"touch {mark}", "early"))).refused
    await remote_commands.answer(begin(f"echo $$ > {mark}; sleep 1000", command="exec"))
    await until(lambda: mark.exists() and mark.read_text() != "")
    await remote_commands.answer(RemoteCommand(session="s", end=True))
    assert not os.path.exists(f"/proc/{mark.read_text().strip()}")  # noqa: PTH110, ASYNC240
    assert "no longer has the command" in (await remote_commands.answer(RemoteCommand(session="s"))).refused
    assert (await remote_commands.answer(begin("true"))).refused


async def test_a_copy_of_what_was_once_asked_for_begins_nothing(
    remote_commands: RemoteCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody who can poll the fleet's task queue can send a node a copy of a sealed request."""
    mark = tmp_path / "mark"
    asked = begin(f"touch {mark}", command="exec")
    for late, why in (
        (asked.asked_at - 400, "the command was sent 400 s ago by the clock of node "),
        (asked.asked_at + 400, "s ahead by the clock of node "),
        (asked.asked_at - 100, "started after the command was sent: send the command again"),
        (0.0, ", and at most 300 s are accepted: set the clocks of both machines"),
    ):
        assert why in (await remote_commands.answer(asked.model_copy(update={"asked_at": late}))).refused
    assert not mark.exists()
    assert not (await remote_commands.answer(begin("echo", command="logs", session="reads", asked_at=0.0))).refused
    assert not (await remote_commands.answer(asked)).refused


async def test_a_clock_that_is_set_back_makes_no_later_command_one_from_before(
    remote_commands: RemoteCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = time.time()
    monkeypatch.setattr(time, "time", lambda: before - 3600)
    assert not (await remote_commands.answer(begin("echo", command="exec"))).refused


async def test_single_bytes_of_both_streams_make_no_piece_large(
    remote_commands: RemoteCommands, tmp_path: Path
) -> None:
    """They are not fetched while they are written."""
    script, written = tmp_path / "script.py", tmp_path / "written"
    script.write_text(
        "import os, time\nfor number in range(4000):\n    os.write(1 + number % 2, b'x')\n    time.sleep(0.0001)\n"
    )
    asked = begin(f"{sys.executable} {script}; touch {written}")
    await remote_commands.answer(asked)
    await until(written.exists)
    whole, pieces, ended = b"", [], False
    while not ended:
        pieces.append(await remote_commands.answer(asked.model_copy(update={"received": len(whole), "wait": 1})))
        whole, ended = whole + said(pieces[-1]), pieces[-1].code is not None
    assert whole == b"x" * 4000
    assert max(len(each.chunks) for each in pieces) <= 1024


async def test_no_more_run_at_once_than_the_link_has_room_for(remote_commands: RemoteCommands) -> None:
    for number in range(MOST):
        assert not (await remote_commands.answer(begin("sleep 1000", str(number)))).refused
    assert f"runs {MOST} commands" in (await remote_commands.answer(begin("sleep 1000", "more"))).refused
    await remote_commands.answer(RemoteCommand(session="0", end=True))
    assert not (await remote_commands.answer(begin("sleep 1000", "more"))).refused


async def test_nothing_else_than_what_reads_or_reaches_a_pod_is_run(remote_commands: RemoteCommands) -> None:
    assert "not delete" in (await remote_commands.answer(begin("true", command="delete"))).refused


async def test_a_command_that_is_cancelled_while_it_starts_ends_with_all_that_it_has_started(
    remote_commands: RemoteCommands, tmp_path: Path
) -> None:
    pipe, mark = asyncio.subprocess.PIPE, tmp_path / "mark"
    for turns in range(8):
        script = f"sleep 1000 & echo $! >> {mark}; wait"
        starting = asyncio.create_task(module.start_command(["logs", script], os.environ, pipe, pipe, pipe))
        for _ in range(turns):
            await asyncio.sleep(0)
        if starting.done():
            os.killpg(starting.result().pid, signal.SIGKILL)
            await starting.result().wait()
            continue
        starting.cancel()
        done, _ = await asyncio.wait({starting}, timeout=30)
        assert done, f"it hangs when cancelled after {turns} turns"
    pids = mark.read_text().split() if mark.exists() else []
    await until(lambda: not any(Path("/proc", pid).exists() for pid in pids))
