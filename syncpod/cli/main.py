"""The ``syncpod`` program: how it begins and ends, and how errors of its commands are reported.

Exit codes: 0 done, 1 failed or not found, 2 the input or the environment is wrong, 130 interrupted; ``exec`` passes on
the exit code of its command.

Ctrl-C would print a traceback while this module is being imported, so that is prevented before anything else.
"""

from __future__ import annotations

import signal
import sys

_IS_PROGRAM = __name__ == "__main__" or sys.argv[0].rpartition("/")[2] == "syncpod"
if _IS_PROGRAM and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command itself begins, Ctrl-C ends the process silently

import contextlib
import os
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from syncpod.api.views.text import printable
from syncpod.cli.command_table import COMPLETE
from syncpod.cli.console import paint, remark, say
from syncpod.cli.failure import BAD_INPUT, FAILED, INTERRUPTED, Failure
from syncpod.cli.standard_streams import lost_output, open_standard_streams
from syncpod.kernel.os_errors import error_within, is_of_the_machine, sentence_of

_EXTRA: Final = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((\S+).*\)")
"""The parser's message about words that a command does not take; the regex group is the first of these words."""


def main() -> NoReturn:
    """Run the command that this process was started with, and end the process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # not yet done if another program imported this module
    open_standard_streams()
    code = run(sys.argv[1:])
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        if code == 0 and (why := lost_output()) is not None:
            code = _fail(sentence_of(why), FAILED)
        sys.stderr.flush()
    # A process that has used the Temporal SDK sometimes aborts while the interpreter shuts down.
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    import typer

    from syncpod.cli.input.kubectl_words import arranged
    from syncpod.cli.manual import CommandInterrupted
    from syncpod.cli.program import program

    wrong_usage: type[Exception] = typer.BadParameter.__mro__[1]  # any wrong usage; typer does not export it
    if arguments and arguments[0] == COMPLETE:
        from syncpod.cli.commands import completion_candidates

        if found := completion_candidates.complete(program, _of_fleet(arguments[1:])):
            say(found)
        return 0
    words = _of_fleet(arguments)
    try:
        commands = program()
        words = arranged(commands, words)
        code = commands.main(args=words, prog_name="syncpod", standalone_mode=False)
        sys.stdout.flush()
    except Failure as failure:
        return _fail(str(failure), failure.code)
    except wrong_usage as error:
        return _fail(_usage(error, words), BAD_INPUT)
    except CommandInterrupted:
        if sys.stderr.isatty():
            remark("")  # the terminal has written ^C: put the prompt on a line of its own
        return INTERRUPTED
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as ended:
        # The reader of our output has gone (typer raises SystemExit for it); flushing the rest must not fail.
        if isinstance(ended, SystemExit) and not isinstance(ended.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        if not is_of_the_machine(error):
            raise
        return _fail(sentence_of(error), FAILED)
    except BaseException as error:  # the SDK's Rust core puts the system's error into its text, or panics
        if (of_system := error_within(str(error))) is None:
            raise
        return _fail(sentence_of(of_system), FAILED)
    return code if isinstance(code, int) else 0


def _of_fleet(arguments: Sequence[str]) -> Sequence[str]:
    """Return the words of a command line, with a leading ``--fleet`` replaced by ``fleet``."""
    return ["fleet", *arguments[1:]] if arguments and arguments[0] == "--fleet" else arguments


def _fail(sentence: str, code: int) -> int:
    for line in sentence.split("\n") if sentence else ():
        remark(f"{paint('syncpod:', 'red', sys.stderr)} {printable(line)}")
    return code


def _usage(error: Exception, words: Sequence[str]) -> str:
    """Return what is wrong with a command line, and which help to read; "" if its help has been printed already."""
    context: Any = getattr(error, "ctx", None)
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{message}\n")
        return ""
    from syncpod.cli.input.kubectl_words import command_words, option_elsewhere, other_value, without_flag
    from syncpod.cli.program import program

    command = " ".join(command_words(program(), words))
    if (extra := _EXTRA.match(message)) and _takes_manifests(context) and (way := without_flag(extra[1], command)):
        return way
    option = getattr(error, "option_name", "")
    if why := other_value(command, option):
        return why
    if way := option_elsewhere(command, option):
        return f"{message.partition(' (Possible options')[0]}: {way}"
    # These words come from the parser that typer uses.
    message = re.sub(r"Input should be a valid integer\b.*", "must be a whole number", message)
    message = message.replace("Input should be", "must be")
    # If an option lacks its argument, the parser's error does not name the command.
    where = context.command_path if context is not None else f"syncpod {command}".rstrip()
    return f"{message}; see `{where} --help`"


def _takes_manifests(context: Any) -> bool:
    return context is not None and any("--filename" in each.opts for each in context.command.params)


if __name__ == "__main__":
    main()
