"""`python -m syncpod.runtime`: its command line, its files, its start and its end."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.cri.client import CriClient
from syncpod.kernel.listening import SOCKET_PATH_BYTES
from tests.runtimes.embedded import Embedded

ROOT = Path(__file__).parents[2]


def ended(*arguments: str) -> tuple[int, str]:
    """Run it to its end; return its exit code and its standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "syncpod.runtime", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with Embedded.launch("--simulate") as running:
        yield running


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "the following arguments are required: --state-dir\n"),
        (("--state-dir", "/tmp/x", "--what"), "unrecognized arguments: --what\n"),
        (
            ("--state-dir", "/dev/null/x"),
            "--state-dir: /dev/null/x: Not a directory: name one that can be written to\n",
        ),
    ],
)
def test_a_wrong_command_line_gives_one_sentence_and_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    assert ended(*arguments) == (2, said)


def test_a_socket_path_too_long_for_the_kernel_is_refused(tmp_path: Path) -> None:
    socket = tmp_path / ("s" * SOCKET_PATH_BYTES)
    code, said = ended("--state-dir", str(tmp_path), "--socket", str(socket))
    assert (code, said) == (
        2,
        f"--socket: {socket} has {len(str(socket))} bytes, and a socket's path at most 107: name a shorter one\n",
    )


async def test_a_socket_may_have_any_character_that_grpc_can_address(tmp_path: Path) -> None:
    directory = tmp_path / "per%41 c?#:"
    directory.mkdir()
    line = [sys.executable, "-m", "syncpod.runtime", "--state-dir", str(directory), "--simulate"]
    runtime = await asyncio.create_subprocess_exec(*line, "--socket", f"{directory}/s", cwd=ROOT)
    try:
        while not (directory / "s").is_socket():
            assert runtime.returncode is None
            await asyncio.sleep(0.05)
        client = CriClient(f"unix://{directory}/s")
        assert (await client.version()).name == "syncpod-embedded"
        await client.close()
    finally:
        runtime.terminate()
        await runtime.wait()
    with pytest.raises(ValueError, match="has a comma"):
        CriClient("unix:///run/a,b")


def test_an_existing_file_at_the_socket_path_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    code, said = ended("--state-dir", str(tmp_path / "s"), "--socket", str(tmp_path / "file"), "--simulate")
    assert code == 2
    assert f"--socket: {tmp_path / 'file'} exists and is not a socket: name another, or remove it" in said
    assert (tmp_path / "file").read_text() == "precious"


def test_a_socket_in_a_missing_directory_is_refused(tmp_path: Path) -> None:
    code, said = ended("--state-dir", str(tmp_path / "s"), "--socket", str(tmp_path / "no/s"), "--simulate")
    assert code == 2
    assert f"--socket: cannot listen at {tmp_path / 'no/s'}: there is no directory {tmp_path / 'no'}" in said


def test_a_second_server_of_a_directory_is_refused_with_the_holders_pid(server: Embedded) -> None:
    assert ended("--state-dir", str(server.state_dir), "--simulate") == (
        1,
        f"--state-dir: {server.state_dir} is in use by the embedded runtime in process {server.pid}: "
        "one serves a directory\n",
    )


def test_socket_and_state_are_private(server: Embedded) -> None:
    assert stat.S_IMODE(server.state_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.socket.stat().st_mode) == 0o600
    for made in server.state_dir.rglob("*"):
        assert stat.S_IMODE(made.stat().st_mode) & 0o077 == 0 or made.parent != server.state_dir, made


def test_a_server_prints_its_endpoint_and_shuts_down_cleanly(server: Embedded) -> None:
    assert f"embedded runtime at unix://{server.socket} (pid {server.pid})\n" in server.log.read_text()
    assert server.stop() == 0
    assert not server.socket.exists()
    server.start()
    assert server.stop(signal.SIGINT) == 0
    server.start()


def test_a_stale_socket_of_a_killed_server_is_replaced(server: Embedded) -> None:
    server.kill()
    assert server.socket.exists()
    server.start()
