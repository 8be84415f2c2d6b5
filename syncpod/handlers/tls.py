"""TLS to a server in a container, on a connection that belongs to the caller.

The server decides the cost of a handshake, and the content of its records. So OpenSSL's steps run in threads and not on
the event loop; they work on memory only, and never wait for the network. Two threads serve all pods, and a pod has at
most one of them at a time. Features that Go's client does not offer are refused, since they cost most: Diffie-Hellman
over finite fields, where a server may choose a modulus of 10,000 bits, and renegotiation.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Final, TypeVar

from syncpod.handlers.answer import NoAnswer
from syncpod.handlers.pod_shares import PodShares

_T = TypeVar("_T")

_BLOCK: Final = 16 * 1024
_RECEIVED_LIMIT: Final = 2 * 1024 * 1024
"""Maximum bytes that a connection may receive: twice the size of the largest head of a response. Only this limit counts
records without content, tickets and new keys."""
_FIRST_LIMIT: Final = 64 * 1024
"""Maximum bytes up to the end of the server's first message; OpenSSL accepts 20,000 bytes of the message itself."""

_CIPHERS: Final = ":".join(
    f"ECDHE-{key}-{cipher}"
    for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305", "AES128-SHA", "AES256-SHA")
    for key in ("ECDSA", "RSA")
)
"""The ciphers of Go 1.24 for TLS 1.2 (crypto/tls/cipher_suites.go): ECDHE only, without RSA key exchange."""
_GROUPS: Final = frozenset((23, 24, 25, 29, 4588))
"""The groups of Go 1.24 (crypto/tls/defaults.go): P-256, P-384, P-521, X25519, X25519MLKEM768."""

_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE = 20, 21, 22
_LARGEST_RECORD: Final = 16 * 1024 + 256
_HELLO_REQUEST: Final = bytes(4)
_SERVER_HELLO: Final = 2
_KEY_SHARE: Final = 51
_RETRY: Final = hashlib.sha256(b"HelloRetryRequest").digest()
"""A HelloRetryRequest is a ServerHello with these bytes in place of the random ones (RFC 8446, 4.1.3)."""


class TlsConnection:
    """The client's side of one TLS connection; certificates are not checked. The caller closes the socket."""

    def __init__(
        self, host: str, uid: str, send: Callable[[bytes], Awaitable[None]], receive: Callable[[], Awaitable[bytes]]
    ) -> None:
        """`uid` is the UID of the pod whose share of the threads this connection uses.

        `receive` returns b"" at the end.
        """
        self._uid, self._send, self._receive = uid, send, receive
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = _context().wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._gate = RetryGate()
        self._received = 0

    async def begin(self, request: bytes) -> None:
        """Shake hands and send the request. Raises OSError (an ssl.SSLError is one), NoAnswer."""
        await self._through(partial(self._begun, request))

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end. Raises OSError, NoAnswer."""
        return await self._through(self._read)

    async def _through(self, call: Callable[[], _T]) -> _T:
        """Repeat a call of OpenSSL until it needs no more bytes from the server."""
        data: bytes | None = None
        while True:
            outcome, sent = await _SHARES.run(self._uid, partial(self._try, call, data))
            if sent:
                await self._send(sent)  # after a failure, an alert for the server
            if not isinstance(outcome, Exception):
                return outcome
            if not isinstance(outcome, ssl.SSLWantReadError):
                raise outcome
            data = await self._receive()
            self._received += len(data)
            if self._received > _RECEIVED_LIMIT:
                raise ConnectionError(f"tls: the server sent more than {_RECEIVED_LIMIT} bytes")

    def _try(self, call: Callable[[], _T], data: bytes | None) -> tuple[_T | Exception, bytes]:
        """Pass received bytes to OpenSSL and make the call; return its outcome, and the bytes to send. For a thread."""
        outcome: _T | Exception
        try:
            if data:
                self._incoming.write(self._gate.passed(data))
            elif data is not None:
                self._incoming.write_eof()
            outcome = call()
        except OSError as error:
            outcome = error
        return outcome, self._outgoing.read()

    def _begun(self, request: bytes) -> None:
        self._object.do_handshake()
        self._object.write(request)

    def _read(self) -> bytes:
        """Return the bytes that have arrived, up to the size of a block: a record may have a single byte."""
        read = bytearray()
        try:
            while len(read) < _BLOCK and (content := self._object.read(_BLOCK - len(read))):
                read += content
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            pass  # if data came before the end, the next call comes here again
        except ssl.SSLWantReadError:
            if not read:
                raise
        return bytes(read)


class RetryGate:
    """Passes on a server's first records, and refuses a key exchange by a group that Go does not offer.

    OpenSSL offers finite fields of up to 8,192 bits, and Python's interface cannot disable them. A server that wants
    one must request it in a HelloRetryRequest, because the client's first key is for an elliptic curve.
    """

    def __init__(self) -> None:
        """Begin before the server's first record."""
        self._record, self._message = bytearray(), bytearray()
        self._open, self._room = False, _FIRST_LIMIT

    def passed(self, data: bytes) -> bytes:
        """Take the next bytes of the server; return those that OpenSSL may parse now. Raises ConnectionError."""
        if self._open:
            return data
        self._room -= len(data)
        self._record += data
        passed = bytearray()
        while not self._open and len(self._record) >= 5:
            kind, size = self._record[0], int.from_bytes(self._record[3:5], "big")
            if kind not in (_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE) or size > _LARGEST_RECORD:
                self._open = True  # OpenSSL reports the error
            elif len(self._record) < 5 + size:
                break
            else:
                if kind == _HANDSHAKE:
                    self._add(bytes(self._record[5 : 5 + size]))
                passed += self._record[: 5 + size]
                del self._record[: 5 + size]
        if self._open:
            passed += self._record
            self._record.clear()
        elif self._room < 0:
            raise ConnectionError(f"tls: the server's first message does not end within {_FIRST_LIMIT} bytes")
        return bytes(passed)

    def _add(self, part: bytes) -> None:
        """Add a part of the first message; open the gate once the message is whole and harmless."""
        self._message += part
        while self._message.startswith(_HELLO_REQUEST):  # OpenSSL skips this message
            del self._message[:4]
        if self._message and self._message[0] != _SERVER_HELLO:
            self._open = True
        elif len(self._message) >= 4 and len(self._message) >= 4 + (size := int.from_bytes(self._message[1:4], "big")):
            if (group := _retry_group(bytes(self._message[4 : 4 + size]))) is not None and group not in _GROUPS:
                raise ConnectionError("tls: server selected unsupported group")
            self._open = True


def _retry_group(hello: bytes) -> int | None:
    """Return the group that a HelloRetryRequest requests; None for any other ServerHello, and for a broken one."""
    if hello[2:34] != _RETRY:
        return None
    at = 35 + int.from_bytes(hello[34:35], "big") + 3 + 2  # past the session, cipher and compression, and the length
    while at + 4 <= len(hello):
        kind, size = (int.from_bytes(hello[start : start + 2], "big") for start in (at, at + 2))
        if kind == _KEY_SHARE:
            return int.from_bytes(hello[at + 4 : at + 6], "big")
        at += 4 + size
    return None


@lru_cache(maxsize=1)
def _context() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate: a probe checks whether a server answers, not its identity."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


_POOL: Final = ThreadPoolExecutor(2, "tls")
"""The threads that run steps of TLS. They start with the first steps; none can hang, since they only compute."""


def _started(work: Callable[[], _T]) -> asyncio.Future[_T]:
    try:
        return asyncio.wrap_future(_POOL.submit(work))
    except RuntimeError as error:  # the machine, or this user, has no process id left
        raise NoAnswer(f"tls: {error}") from error


_SHARES: Final = PodShares(1, _started)
