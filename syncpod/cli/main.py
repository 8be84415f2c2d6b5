"""The ``syncpod`` program: its commands, and how their errors are reported.

Exit codes: 0 done, 1 failed or not found, 2 the input or the environment is wrong, 130 interrupted; ``exec`` passes on
the exit code of its command.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer

from syncpod.cli.commands import (
    adopt,
    apply,
    attach,
    completion,
    condition,
    cordon,
    cp,
    create,
    debug,
    delete,
    describe,
    down,
    drain,
    edit,
    env,
    events,
    exec,
    get,
    history,
    key,
    label,
    load,
    logs,
    node,
    patch,
    plan,
    port_forward,
    prune,
    resize,
    restart,
    retry,
    runtime,
    server,
    top,
    up,
    version,
    wait,
    worker,
)
from syncpod.cli.commands import (
    run as run_command,
)
from syncpod.cli.console import paint, printable, remark, say
from syncpod.cli.failure import BAD_INPUT, INTERRUPTED, Failure
from syncpod.cli.input.kubectl_words import arranged
from syncpod.cli.manual import Page, Program, with_examples

app = typer.Typer(
    name="syncpod",
    cls=Program,
    help="Kubernetes pods on this machine's container runtime, each a durable Temporal workflow.",
    epilog="Exit codes: 0 done, 1 failed or not found, 2 wrong input or environment, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        version.version()
        raise typer.Exit


@app.callback()
def _program(
    asked: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before a command."""


_PANELS: dict[str, dict[str, Callable[..., Any]]] = {
    "Pods": {
        "apply": apply.apply,
        "run": run_command.run,
        "get": get.get,
        "describe": describe.describe,
        "logs": logs.logs,
        "exec": exec.exec_,
        "attach": attach.attach_,
        "port-forward": port_forward.port_forward,
        "cp": cp.cp,
        "debug": debug.debug,
        "history": history.history,
        "events": events.events,
        "plan": plan.plan,
        "wait": wait.wait,
        "resize": resize.resize,
        "edit": edit.edit,
        "patch": patch.patch,
        "label": label.label,
        "annotate": label.annotate,
        "restart": restart.restart,
        "retry": retry.retry,
        "condition": condition.condition,
        "delete": delete.delete,
    },
    "This machine": {
        "up": up.up,
        "down": down.down,
        "server": server.server,
        "runtime": runtime.runtime,
        "load": load.load,
        "worker": worker.worker,
        "node": node.node,
        "env": env.env,
        "adopt": adopt.adopt,
        "prune": prune.prune,
    },
    "Nodes": {"cordon": cordon.cordon, "uncordon": cordon.uncordon, "drain": drain.drain},
    "Other": {"completion": completion.completion, "version": version.version},
}


class _Interrupted(Exception):
    """Ctrl-C ended the command."""


def _interruptible(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with Ctrl-C raised as `_Interrupted`: typer would turn it into an exit code of 130."""

    @functools.wraps(command)
    def called(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt:
            raise _Interrupted from None

    return called


for _panel, _commands in _PANELS.items():
    for _name, _command in _commands.items():
        _settings = worker.CONTEXT if _name == "worker" else None
        app.command(
            _name, cls=Page, rich_help_panel=_panel, context_settings=_settings, add_help_option=_name != "worker"
        )(_interruptible(_command))

app.add_typer(create.app, name="create", rich_help_panel="Pods")
app.add_typer(key.app, name="key", rich_help_panel="This machine")
app.add_typer(top.app, name="top", rich_help_panel="Pods")


@functools.cache
def program() -> Any:
    """Return the tree of commands, each with its examples; made once, since that takes a fifth of a command's start."""
    return with_examples(typer.main.get_command(app))


_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for any wrong usage; typer does not export it."""


def main() -> NoReturn:
    """Run the command that this process was started with, and end the process."""
    code = run(sys.argv[1:])
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    # A process that has used the Temporal SDK sometimes aborts while the interpreter shuts down.
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    if arguments and arguments[0] == completion.WORD:
        from syncpod.cli.commands import completion_candidates

        if found := completion_candidates.complete(program, arguments[1:]):
            say(found)
        return 0
    try:
        commands = program()
        words = arranged(commands, arguments)
        code = commands.main(args=words, prog_name="syncpod", standalone_mode=False)
        sys.stdout.flush()
    except Failure as failure:
        return _fail(str(failure), failure.code)
    except _UsageError as error:
        return _fail(_usage(error), BAD_INPUT)
    except _Interrupted:
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
    return code if isinstance(code, int) else 0


def _fail(sentence: str, code: int) -> int:
    for line in sentence.split("\n") if sentence else ():
        remark(f"{paint('syncpod:', 'red', sys.stderr)} {printable(line)}")
    return code


def _usage(error: Exception) -> str:
    """Return what is wrong with a command line, and which help to read; "" if its help has been printed already."""
    context: Any = getattr(error, "ctx", None)
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{message}\n")
        return ""
    # These words come from the parser that typer uses.
    message = re.sub(r"Input should be a valid integer\b.*", "must be a whole number", message)
    message = message.replace("Input should be", "must be")
    where = context.command_path if context is not None else "syncpod"
    return f"{message}; see `{where} --help`"


if __name__ == "__main__":
    main()
