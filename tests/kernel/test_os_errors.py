"""Sentences for errors of the operating system.

Holds: An error of the machine is a sentence with the file and what to do.
"""

from __future__ import annotations

import ast
import builtins
import errno
import logging
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.kernel.os_errors import (
    error_within,
    is_of_the_machine,
    sentence_of,
    where_and_why,
)
from syncpod.kernel.process_log import SentencesInLog

ROOT = Path(__file__).parents[2]
SOURCES = ("syncpod", "activities", "workflows")
_OF_THE_SYSTEM = {
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, OSError)
} - {"TimeoutError", "BrokenPipeError", "ConnectionError"}
THEIR_OWN_WORDS = {
    "syncpod/kernel/os_errors.py": "what has no number has words of its own",
    "syncpod/cli/fleet_endpoint.py": "the same",
    "syncpod/temporal/plugin.py": "the SDK reads the file, and its error has no number",
    "syncpod/kubernetes/client.py": "the words of the library for HTTP",
    "syncpod/runtime/recovery.py": "what another process of ours has answered",
    "syncpod/runtime/images/unpacking.py": "an error of our own, about a path in an archive",
    "syncpod/cli/streams/log_files.py": "the words of gzip, if the system has none",
}
"""The places where an OSError's own text is shown, with the reason."""


def shown_as_python_does(path: Path) -> Iterator[int]:
    """The lines that put an OSError, as Python prints it, into a text: f"{error}" or str(error)."""
    for place in ast.walk(ast.parse(path.read_text())):
        for name in errors_in(place):
            for statement in (each for each in ast.walk(place) if isinstance(each, ast.stmt)):
                own = list(own_expressions(statement))
                if any("strerror" in ast.unparse(each) for each in own):
                    continue
                for node in (each for expression in own for each in ast.walk(expression)):
                    is_put_in = isinstance(node, ast.FormattedValue) and ast.unparse(node.value) == name
                    if is_put_in or (isinstance(node, ast.Call) and ast.unparse(node) == f"str({name})"):
                        yield statement.lineno


def errors_in(place: ast.AST) -> list[str]:
    """The names of variables with an OSError in a handler or a function."""
    if isinstance(place, ast.ExceptHandler):
        return [place.name] if place.name and caught(place.type) & _OF_THE_SYSTEM else []
    if isinstance(place, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = [*place.args.posonlyargs, *place.args.args, *place.args.kwonlyargs]
        return [each.arg for each in arguments if each.annotation and "OSError" in ast.unparse(each.annotation)]
    return []


def own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement, without those of the statements in it."""
    return (each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr))


def caught(kinds: ast.expr | None) -> set[str]:
    if isinstance(kinds, ast.Tuple):
        return {name for each in kinds.elts for name in caught(each)}
    return {ast.unparse(kinds)} if kinds is not None else set()


def test_no_text_has_an_error_of_the_system_as_python_prints_it() -> None:
    """``[Errno 28] No space left on device: '/x'``: use `sentence_of` or `where_and_why`."""
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in THEIR_OWN_WORDS
        for line in shown_as_python_does(path)
    }
    assert found == set()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/a/b"),
            "/a/b: No space left on device: make room on its disk",
        ),
        (
            OSError(errno.EROFS, os.strerror(errno.EROFS), b"/a"),
            "/a: Read-only file system: mount its disk for writing",
        ),
        (
            OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
            "Too many open files: raise the limit of open files (ulimit -n)",
        ),
        (OSError(errno.EBADF, "Bad file descriptor"), "Bad file descriptor"),
        (OSError("our own words"), "our own words"),
        (ValueError("no error of the system"), "no error of the system"),
        (ssl.SSLError(errno.EPERM, "[SSL] tlsv1 alert"), "TLS failed"),
    ],
)
def test_an_error_is_a_sentence_with_what_to_do(error: Exception, sentence: str) -> None:
    assert sentence_of(error) == sentence


@pytest.mark.parametrize(
    "name",
    ["ENOSPC", "EACCES", "ENOENT", "EROFS", "EMFILE", "ENOTDIR", "ENFILE", "EDQUOT", "EIO", "ENOMEM"],
)
def test_what_somebody_can_mend_has_advice(name: str) -> None:
    error = OSError(getattr(errno, name), os.strerror(getattr(errno, name)), "/a")
    assert is_of_the_machine(error)
    assert sentence_of(error).startswith(f"{where_and_why(error)}: ")


def test_a_mistake_of_the_program_has_none() -> None:
    assert not any(is_of_the_machine(OSError(number, "")) for number in (errno.EBADF, errno.EINVAL, errno.ENOTSOCK))


def test_what_a_library_in_rust_says_is_understood() -> None:
    assert str(error_within("Failed initializing runtime: Too many open files (os error 24)")).startswith("[Errno 24]")
    panic = 'failed to create UnixStream: Os { code: 24, kind: TooManyOpenFiles, message: "Too many open files" }'
    assert error_within(panic) is not None
    assert error_within("invalid argument (os error 22)") is None
    assert error_within("no such thing") is None


def test_a_log_says_where_and_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(SentencesInLog())
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a")
    logging.getLogger("syncpod").warning("%s cannot be written: %s", "it", error)
    logging.getLogger("syncpod").warning("%(what)s cannot be written", {"what": "it"})
    assert [record.getMessage() for record in caplog.records] == [
        "it cannot be written: /a: No space left on device",
        "it cannot be written",
    ]
