"""Sockets that listen before a server can answer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from syncpod.kernel import early_listening
from syncpod.kernel.early_listening import VARIABLE, Place, keep, listen_first, receive, taken
from tests.runtimes.ports import free_port

ANSWERING = """
import os, sys
from syncpod.kernel.early_listening import receive, taken
receive(os.environ)
listening = taken("127.0.0.1", int(sys.argv[1]))
assert VARIABLE not in os.environ and not os.get_inheritable(listening.fileno())
listening.setblocking(True)
client, _ = listening.accept()
client.sendall(client.recv(100).upper())
""".replace("VARIABLE", repr(VARIABLE))
REPLACED = """
import os, sys
from syncpod.kernel.early_listening import hand_over, listen_first
port, then = sys.argv[1:]
listen_first([("127.0.0.1", int(port))])
sys.stdout.write("listening\\n")
sys.stdout.flush()
sys.stdin.readline()
os.execve(sys.executable, [sys.executable, "-c", then, port], {**os.environ, **hand_over()})
"""


@pytest.fixture
def place() -> Iterator[Place]:
    """A free address; asserts that nothing listens there afterwards."""
    yield ("127.0.0.1", free_port())
    keep([])


def test_a_client_waits_until_the_program_that_answers_has_replaced_the_one_that_listens(place: Place) -> None:
    command = [sys.executable, "-c", REPLACED, str(place[1]), ANSWERING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"listening\n"
        with socket.create_connection(place, timeout=60) as client:
            client.sendall(b"hello")
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert client.recv(100) == b"HELLO"
    assert process.returncode == 0


def test_nobody_waits_where_nobody_will_answer(place: Place) -> None:
    listen_first([place])
    with socket.create_connection(place, timeout=60):
        pass
    keep([("127.0.0.1", 1)])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place, timeout=60)
    assert taken(*place) is None


def test_a_place_that_cannot_be_had_is_left_to_its_server(place: Place) -> None:
    with socket.socket() as other:
        other.bind(place)
        other.listen()
        listen_first([place, ("127.0.0.1", 0), ("192.0.2.1", place[1]), ("127.0.0.1", 70000), ("no address", 9)])
    assert not early_listening._waiting
    listen_first([place, place])
    found = taken(*place)
    assert found is not None
    found.close()


def test_what_is_no_descriptor_of_a_socket_is_passed_over(place: Place) -> None:
    listen_first([place])
    with Path(os.devnull).open("rb") as file:
        environ = {VARIABLE: f"x,{file.fileno()},987654"}
        receive(environ)
    assert not environ
    assert list(early_listening._waiting) == [place]


@pytest.mark.parametrize("address", ["x\0y", "é..x", "a b", "", "localhost", "::1%nothing", "1.2.3.4.5"])
def test_what_is_no_address_is_left_to_those_who_refuse_it_and_is_not_looked_up(
    address: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", Mock(side_effect=AssertionError("nothing is to be bound")))
    listen_first([(address, place[1])])
    assert taken(address, place[1]) is None
