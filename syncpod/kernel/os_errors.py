"""Turns errors of system calls into sentences for people, without Python's ``[Errno 28]`` and quotes."""

from __future__ import annotations

import errno
import os
import re
from typing import Final

_ASYNCIO_MESSAGE: Final = ("error while attempting to bind on address", "Connect call failed", "Multiple exceptions")
"""Beginnings of asyncio's own error texts, which repeat the address in Python's form."""
_IN_RUST: Final = re.compile(r"\(os error ([0-9]{1,4})\)|\bOs \{ code: ([0-9]{1,4}),")
_REMEDIES: Final = {
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room, or raise this user's quota of the disk",
    errno.EROFS: "mount its disk for writing",
    errno.EIO: "look after its disk; the kernel's log says more",
    errno.EACCES: "let this user have it, or run this as the user whose it is",
    errno.EPERM: "let this user have it, or run this as the user whose it is",
    errno.ENOENT: "restore it, or name another one",
    errno.ENOTDIR: "a part of this path is no directory: remove it, or name another path",
    errno.EISDIR: "remove this directory, or name another file",
    errno.ELOOP: "its links lead to one another: remove one of them",
    errno.ENAMETOOLONG: "name a shorter path",
    errno.EEXIST: "remove it, or name another one",
    errno.ENOTEMPTY: "remove what is in it",
    errno.EBUSY: "end what uses it",
    errno.ETXTBSY: "end what uses it",
    errno.EFBIG: "raise the limit of the size of files (ulimit -f)",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the machine's limit of open files (sysctl fs.file-max)",
    errno.ENOMEM: "free some of the machine's memory",
    errno.EAGAIN: "the machine has no room for another process now: try again, or raise the limit (ulimit -u)",
    errno.ENODEV: "attach its device again",
    errno.ENXIO: "attach its device again",
    errno.ESTALE: "mount its disk again",
    errno.ETIMEDOUT: "its disk or its server does not answer: look after it",
    errno.EADDRINUSE: "end what listens there, or name another address",
    errno.EADDRNOTAVAIL: "name an address of this machine",
}
"""How to mend an error of the machine, by errno. Any other error is a mistake of the program."""


def why_of(error: OSError) -> str:
    """Return the reason why a system call failed, in the system's words or ours, without the file's name."""
    if type(error).__module__ == "ssl":  # the numbers of these errors are not errno's
        said = getattr(error, "verify_message", "") or getattr(error, "reason", "")
        return str(said).lower().replace("_", " ") if said else "TLS failed"
    text = error.strerror or ""
    if error.errno is not None and error.errno > 0 and (not text or text.startswith(_ASYNCIO_MESSAGE)):
        return os.strerror(error.errno)
    return text or str(error) or type(error).__name__


def where_and_why(error: BaseException) -> str:
    """Return the file, if any, and the cause of an OSError; return the text of any other error."""
    if not isinstance(error, OSError):
        return str(error)
    if not isinstance(error.filename, str | bytes):
        return why_of(error)
    return f"{os.fsdecode(error.filename)}: {why_of(error)}"


def is_of_the_machine(error: OSError) -> bool:
    """Return whether an error can be mended on this machine; if not, it is a mistake of the program."""
    return error.errno in _REMEDIES and type(error).__module__ != "ssl"


def sentence_of(error: BaseException) -> str:
    """Return the file, the cause and the remedy, if any, of an OSError; return the text of any other error."""
    if isinstance(error, OSError) and is_of_the_machine(error):
        return f"{where_and_why(error)}: {_REMEDIES[error.errno or 0]}"
    return where_and_why(error)


def error_within(text: str) -> OSError | None:
    """Return the OSError that a Rust library names in an error's text; None if it cannot be mended on this machine."""
    found = _IN_RUST.search(text)
    error = OSError(number := int(found[1] or found[2]), os.strerror(number)) if found else None
    return error if error is not None and is_of_the_machine(error) else None
