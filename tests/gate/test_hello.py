"""The server name in a TLS client's first message, read before anything else is done."""

from __future__ import annotations

import ssl

import pytest

from syncpod.gate.hello import NotWhole, hello_name, server_name


def first_message(name: str | None) -> bytes:
    """The first message of Python's own TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    said = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname=name).do_handshake()
    return said.read()


def test_the_name_is_read_from_a_real_clients_hello() -> None:
    name = hello_name(0x1234, "gate.0123456789abcdef.syncpod")
    assert server_name(first_message(name)) == name
    assert server_name(first_message(None)) == ""


def test_a_message_that_has_not_arrived_is_waited_for() -> None:
    whole = first_message("a.example")
    for size in range(1, len(whole)):
        with pytest.raises(NotWhole):
            server_name(whole[:size])


def test_what_is_no_hello_has_no_name() -> None:
    whole = first_message("a.example")
    assert server_name(b"GET / HTTP/1.1\r\n\r\n") == ""
    for at in range(5, len(whole)):  # each byte damaged
        for value in (0, 255, whole[at] ^ 1):
            assert len(server_name(whole[:at] + bytes([value]) + whole[at + 1 :])) <= 300
    assert server_name(b"\x16\x03\x01\xff\xff" + bytes(65_535)) == ""


def test_the_name_shows_nothing_of_the_serial_number_and_is_a_valid_label() -> None:
    label, _, rest = hello_name(2**159, "gate.f.syncpod").partition(".")
    assert rest == "gate.f.syncpod" and len(label) <= 63 and label.isalnum()
    assert label != hello_name(2**159 + 1, "gate.f.syncpod").partition(".")[0]
