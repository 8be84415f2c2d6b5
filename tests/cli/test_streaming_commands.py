"""`exec`, `attach`, `port-forward` and `cp` with real pods on real runtimes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Result, program
from tests.cli.machine import RUNTIMES, Run, machine
from tests.cli.terminals import Terminal, command_line, environment, forwarding, start
from tests.cli.test_interrupts import PATIENCE_SECONDS, SHELL, interrupted
from tests.runtimes.ports import free_port

pytestmark = pytest.mark.every_runtime("exec, attach and port-forward are served by the runtime", one_containerd=True)

LARGE = 40_000_000

ECHO = "busybox nc -ll -p {port} -e cat"


def manifest(port: int, host_port: int) -> dict[str, Any]:
    """Manifests of two pods that listen: one in a network of its own, one in the machine's."""
    sleep = ["sh", "-c", "trap exit TERM; sleep 3600 & wait"]
    image = {"image": "busybox:1"}
    talk = {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {"name": "app", "command": sleep, **image},
            {"name": "cat", "command": ["cat"], "stdin": True, **image},
            {
                "name": "once",
                "command": ["sh", "-c", "cat; echo heard it all; sleep 3600"],
                "stdin": True,
                "stdinOnce": True,
                **image,
            },
            {"name": "shell", "command": ["sh"], "stdin": True, "tty": True, **image},
            {
                "name": "echo",
                "command": ["sh", "-c", ECHO.format(port=port)],
                "ports": [{"name": "echo", "containerPort": port}],
                **image,
            },
        ],
    }
    host = {
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "echo", "command": ["sh", "-c", ECHO.format(port=host_port)], **image}],
    }
    return {
        "kind": "List",
        "apiVersion": "v1",
        "items": [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            for name, spec in (("talk", talk), ("host", host))
        ],
    }


@pytest.fixture(scope="module", params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    """Each runtime in turn."""
    return str(request.param)


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    """The ports at which the pods listen."""
    return free_port(), free_port()


@pytest.fixture(scope="module")
def environ(
    runtime: str, ports: tuple[int, int], request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The environment of a machine with the runtime and running pods."""
    with machine(runtime, request, tmp_path_factory.mktemp("connections")) as environ:
        flags = () if environ["CONTAINER_RUNTIME_ENDPOINT"] else ("--embedded",)
        text = json.dumps(manifest(*ports))
        upped = program("up", *flags, "-f", "-", "--timeout", "60s", environ=environ, stdin=text)
        assert upped.code == 0, upped.err
        yield environ


@pytest.fixture(scope="module")
def syncpod(environ: dict[str, str]) -> Run:
    """Run commands on the machine."""

    def command(*arguments: str, stdin: str = "") -> Result:
        return program(*arguments, environ=environ, stdin=stdin)

    return command


def test_exec_passes_a_large_input_through_unchanged(environ: dict[str, str], tmp_path: Path) -> None:
    """Row 124: exec by the URL that the runtime gives out, stdin, stdout and stderr apart, and the exit code."""
    block = os.urandom(1_000_003)
    (tmp_path / "in").write_bytes(block * (LARGE // len(block)))
    with (tmp_path / "in").open("rb") as given, (tmp_path / "out").open("wb") as taken:
        piped = subprocess.Popen(["cat"], stdin=given, stdout=subprocess.PIPE)
        done = subprocess.run(
            command_line("exec", "-i", "talk", "-c", "app", "--", "sh", "-c", "cat; echo all of it >&2; exit 9"),
            stdin=piped.stdout,
            stdout=taken,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
            env=environment(environ),
        )
        assert piped.stdout is not None
        piped.stdout.close()
        piped.wait()
    assert (done.returncode, done.stderr) == (9, b"all of it\n")
    digests = [hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("in", "out")]
    assert digests[0] == digests[1]


def test_an_exec_terminal_follows_the_local_size_and_is_restored(environ: dict[str, str]) -> None:
    shell = Terminal(environ, "exec", "-it", "talk", "-c", "app", "--", "sh")
    shell.until(b"# ", b"$ ")
    assert not shell.echoes, "every key is the command's"
    shell.resize(111, 33)
    shell.type(b"while ! stty size | grep '33 111'; do sleep 0.1; done\r")
    shell.until(b"\n33 111")
    shell.type(b"sh -c 'echo sle\"\"eps; exec sleep 600'\r")
    shell.until(b"sleeps")
    shell.type(b"\x03")
    shell.until(b"# ", b"$ ")
    shell.type(b"echo go''ne on; exit 7\r")
    shell.until(b"gone on")
    assert shell.ended() == 7


def test_the_terminal_is_restored_on_sigterm(environ: dict[str, str]) -> None:
    shell = Terminal(environ, "exec", "-it", "talk", "-c", "app", "--", "sh", "-c", "echo rea''dy; sleep 600")
    shell.until(b"ready")
    os.kill(shell.pid, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while not shell.echoes:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert shell.ended() == 128 + signal.SIGTERM


async def test_attach_shows_new_output_and_sends_input(environ: dict[str, str], syncpod: Run) -> None:
    """Row 124: attach by the URL that the runtime gives out, for several at once."""
    attached = await start(environ, "attach", "-i", "talk", "-c", "cat")
    assert attached.stdin and attached.stdout and attached.stderr
    attached.stdin.write(b"hello\n")
    assert await attached.stdout.readline() == b"hello\n"
    attached.stdin.close()
    assert await attached.wait() == 0, (await attached.stderr.read()).decode()
    again = await asyncio.to_thread(syncpod, "attach", "-i", "talk", "-c", "cat", stdin="still there\n")
    assert again.code == 0, "input that ends does not end a container that is to read on"

    listening = await start(environ, "attach", "talk", "-c", "cat")
    assert listening.stdout
    speaking = await start(environ, "attach", "-i", "talk", "-c", "cat")
    assert speaking.stdin
    heard = asyncio.create_task(listening.stdout.readline())
    while not heard.done():  # until it listens
        speaking.stdin.write(b"to all\n")
        await asyncio.wait({heard}, timeout=0.2)
    assert heard.result() == b"to all\n"
    listening.send_signal(signal.SIGINT)
    assert await listening.wait() == 130, "Ctrl-C leaves, and the container runs on"
    speaking.stdin.close()
    await speaking.communicate()
    assert (await asyncio.to_thread(syncpod, "exec", "talk", "-c", "cat", "--", "true")).code == 0


async def test_with_stdin_once_attach_ends_the_containers_input(environ: dict[str, str]) -> None:
    attached = await start(environ, "attach", "-i", "talk", "-c", "once")
    written = b"line\n" * 50_000
    assert attached.stdin and attached.stdout
    attached.stdin.write(written)
    attached.stdin.close()
    assert await attached.stdout.readexactly(len(written)) == written
    assert await attached.stdout.readline() == b"heard it all\n"
    attached.kill()
    await attached.wait()


def test_attach_to_a_shell_can_be_detached(environ: dict[str, str]) -> None:
    shell = Terminal(environ, "attach", "-it", "talk", "-c", "shell")
    shell.until(b"try pressing enter")
    shell.type(b"\recho he''re; stty size\r")
    shell.until(b"here")
    assert not shell.echoes
    os.kill(shell.pid, signal.SIGHUP)
    assert shell.ended() == 128 + signal.SIGHUP
    again = Terminal(environ, "attach", "-it", "talk", "-c", "shell")
    again.until(b"try pressing enter")
    again.type(b"\recho still he''re\r")
    again.until(b"still here")
    again.type(b"exit\r")
    assert again.ended() == 0


def test_attach_to_an_unsuitable_container_is_refused(syncpod: Run) -> None:
    mute = syncpod("attach", "-i", "talk", "-c", "app")
    assert (mute.code, mute.err.count("\n")) == (2, 1) and "does not set `stdin: true`" in mute.err
    nobody = syncpod("attach", "nobody")
    assert (nobody.code, nobody.err.count("\n")) == (1, 1)


async def test_log_following_ends_on_sigint_even_in_a_scripts_background(
    environ: dict[str, str],
) -> None:
    for words in (("logs", "talk", "-c", "app", "-f"), ("attach", "talk", "-c", "cat")):
        assert await asyncio.to_thread(interrupted, words, environ) == 130


async def test_port_forwarding_ends_on_sigint_even_in_a_scripts_background(
    environ: dict[str, str], ports: tuple[int, int]
) -> None:
    command = (*SHELL, *command_line("port-forward", "talk", f":{ports[0]}"))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment(environ))
    try:
        assert process.stdout and (await process.stdout.readline()).startswith(b"Forwarding from ")
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()


async def echoed(port: int, data: bytes) -> bytes:
    """Send this many bytes over a connection of its own, and read them back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        sending = asyncio.create_task(writer.drain())
        back = await reader.readexactly(len(data))
        await sending
        return back
    finally:
        writer.close()


async def test_ports_are_forwarded_for_many_connections_at_once(
    environ: dict[str, str], ports: tuple[int, int], syncpod: Run
) -> None:
    """Row 124: port-forward by URLs that the runtime gives out, to a network of the pod's own and to the machine's."""
    port, host_port = ports
    closed = free_port()
    async with forwarding(environ, "talk", ":echo", f":{closed}", f":{port}") as (process, (here, dead, other)):
        held_reader, held = await asyncio.open_connection("127.0.0.1", here)
        held.write(bytes(20_000_000))  # and nothing of it is read back
        for _ in range(5):  # busybox' nc refuses more at a time
            data = [os.urandom(200_000) for _ in range(2)]
            assert await asyncio.gather(*(echoed(here, each) for each in data)) == data
        assert process.stderr
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await echoed(dead, b"anybody there?")
        said = (await process.stderr.readline()).decode()
        assert f"an error occurred forwarding {dead} -> {closed}: " in said and "refused" in said
        assert await echoed(other, b"still there") == b"still there"
        assert held_reader.at_eof() is False
        held.transport.abort()
    async with forwarding(environ, "pod/host", f":{host_port}") as (_, (here,)):
        assert await echoed(here, b"to the machine's own") == b"to the machine's own"


async def test_a_local_port_in_use_is_reported(environ: dict[str, str], ports: tuple[int, int], syncpod: Run) -> None:
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as server:
        taken = server.sockets[0].getsockname()[1]
        refused = await asyncio.to_thread(syncpod, "port-forward", "talk", f"{taken}:echo")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == f"syncpod: cannot listen on 127.0.0.1:{taken}: address already in use\n"


def test_cp_copies_files_in_and_out(syncpod: Run, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "large").write_bytes(os.urandom(5_000_000))
    (tree / "a b").write_text("blank")
    (tree / "run").write_text("#!/bin/sh\necho ran\n")
    (tree / "run").chmod(0o755)
    (tree / "link").symlink_to("deep/large")
    for arguments in (
        (str(tree), "talk:/tmp/copied"),
        ("--no-preserve", f"{tree}/run", "default/talk:/tmp/copied/deep"),
        ("talk:/tmp/copied/", str(tmp_path / "back")),
        ("--retries", "1", "pod/talk:/tmp/copied/a b", str(tmp_path)),
    ):
        copied = syncpod("cp", *arguments, "-c", "app")
        assert (copied.code, copied.out, copied.err) == (0, "", ""), arguments
    assert syncpod("exec", "talk", "-c", "app", "--", "/tmp/copied/run").out == "ran\n"
    assert syncpod("exec", "talk", "-c", "app", "--", "cat", "/tmp/copied/deep/run").out.startswith("#!/bin/sh")
    assert (tmp_path / "a b").read_text() == "blank"
    for name in ("deep/large", "a b", "run", "link"):
        assert (tmp_path / "back" / name).read_bytes() == (tree / name).read_bytes()
    assert (tmp_path / "back" / "link").is_symlink()


def test_cp_reports_errors_and_writes_nothing_outside_the_destination(syncpod: Run, tmp_path: Path) -> None:
    missing = syncpod("cp", "talk:/no/such", str(tmp_path / "x"), "-c", "app")
    assert (missing.code, missing.err.count("\n")) == (1, 1) and "No such file or directory" in missing.err
    script = "mkdir -p /tmp/bad; cd /tmp/bad; ln -sfn /etc out; echo fine >kept"
    assert syncpod("exec", "talk", "-c", "app", "--", "sh", "-c", script).code == 0
    partly = syncpod("cp", "talk:/tmp/bad", str(tmp_path / "got"), "-c", "app")
    assert (partly.code, (tmp_path / "got" / "kept").read_text()) == (1, "fine\n")
    assert "a symlink to '/etc', which leads out" in partly.err and not (tmp_path / "got" / "out").is_symlink()
    both = syncpod("cp", "a", "b")
    assert both.code == 2 and "one of SRC and DST must be in a pod" in both.err
