"""Answer recorded cases: `python -m syncpod.lifecycle decide|phase|backoff < cases > answers`.

Reads one JSON `case` object per line on stdin and writes one line of JSON with its answer on stdout, in order, each as
soon as it is computed; blank lines are skipped. For a line that cannot be read, the answer is an object with only
`error`, a sentence. That sentence is also printed on stderr with the line's number, and the exit code is then 2.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, Final

from syncpod.lifecycle.cases import READERS

EXIT_BAD_INPUT: Final = 2


def main() -> int:
    """Run the command; return its exit code: 0, 1 if stdout was closed, 2 for bad input, 130 for Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m syncpod.lifecycle",
        description="Answer decisions, one JSON case a line on stdin, one line of JSON each on stdout.",
    )
    parser.add_argument("kind", choices=tuple(READERS), help="what the cases are about")
    reader = READERS[parser.parse_args().kind]
    try:
        return answer(reader, sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        # Stdout has no reader any more. Close it here, or the interpreter fails again when it flushes stdout at exit.
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.close()
        return 1
    except KeyboardInterrupt:
        return 130


def answer(reader: Callable[[Mapping[str, Any]], Any], lines: Iterable[bytes], out: BinaryIO) -> int:
    """Answer cases line by line; return 0, or 2 if any line could not be read."""
    code = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        result: Any
        try:
            result = reader(_case(line))
        except (ValueError, ArithmeticError, RecursionError) as error:
            code, result = EXIT_BAD_INPUT, {"error": _sentence(error)}
            print(f"line {number}: {result['error']}", file=sys.stderr)  # noqa: T201
        out.write(json.dumps(result, separators=(",", ":")).encode() + b"\n")
        out.flush()
    return code


def _case(line: bytes) -> Mapping[str, Any]:
    case = json.loads(line.strip())
    if not isinstance(case, dict):
        raise ValueError(f"a case is a JSON object, not {line.strip()[:40].decode(errors='replace')}")
    return case


def _sentence(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at column {error.colno}"
    if isinstance(error, UnicodeError):
        return "not UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
