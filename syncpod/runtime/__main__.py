"""`python -m syncpod.runtime --state-dir DIR [--socket PATH] [--simulate]`: serve the embedded runtime."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from syncpod.kernel.os_errors import is_of_the_machine, sentence_of
from syncpod.kernel.process_priority import NODE, lower_oom_score_adj
from syncpod.runtime.server import CannotServe, Settings, serve


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print the error as one sentence, and exit with 2."""
        self.exit(2, f"{message}\n")


def settings(arguments: Sequence[str]) -> Settings:
    """Parse the command line; exits with 2 if it is wrong."""
    parser = _Arguments(prog="python -m syncpod.runtime", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--state-dir", type=Path, required=True, metavar="DIR", help="created with mode 0700 if it does not exist"
    )
    parser.add_argument("--socket", type=Path, metavar="PATH", help="default: DIR/cri.sock")
    parser.add_argument("--simulate", action="store_true", help="containers are timers that obey scripts")
    given = parser.parse_args(arguments)
    directory = Path(os.path.abspath(given.state_dir))  # noqa: PTH100 - this leaves symbolic links unresolved
    socket = given.socket or directory / "cri.sock"
    return Settings(directory, Path(os.path.abspath(socket)), given.simulate)  # noqa: PTH100


def main() -> int:
    """Serve until stopped; return the exit code: 2 for a wrong command line, 1 if another server uses the directory."""
    lower_oom_score_adj(NODE)
    try:
        asyncio.run(serve(settings(sys.argv[1:]), os.environ))
    except CannotServe as problem:
        print(problem, file=sys.stderr)  # noqa: T201
        return problem.exit_code
    except OSError as error:
        if not is_of_the_machine(error):
            raise
        print(sentence_of(error), file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
