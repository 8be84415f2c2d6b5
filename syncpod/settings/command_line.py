"""The worker's command line: each flag overrides an environment variable, and the kept setting of the last start."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from syncpod.settings.node import NodeSettings, node_settings
from syncpod.settings.table import SETTINGS, Setting

ReadSettings = Callable[[Mapping[str, str]], NodeSettings]
"""Returns the settings, given the environment. Raises SettingsInvalid."""


def parse_arguments(arguments: Sequence[str] | None) -> tuple[str, ReadSettings]:
    """Return the level of the log, as `logging` names it, and a function that reads the settings.

    `arguments` None = those of this process. Exits with 0 after ``--help``, and with 2 if the arguments cannot be
    parsed.
    """
    options = vars(_parser().parse_args(arguments))
    level = options.pop("log_level").upper()
    return level, lambda environ: node_settings(environ, **options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="syncpod worker", description="Serve this machine as a node.")
    parser.add_argument("--state-dir", help="where the node keeps its state (SYNCPOD_STATE_DIR)")
    for setting in SETTINGS:
        _add(parser, setting)
    parser.add_argument(
        "--allow-foreign-kubelet",
        action="store_true",
        default=None,
        help="serve beside a kubelet on the same runtime, although a kubelet kills pods that are not its own",
    )
    parser.add_argument(
        "--adopt-cluster",
        action="store_true",
        help="serve on this Temporal server from now on, although another one has the node's pods",
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return parser


def _add(parser: argparse.ArgumentParser, setting: Setting) -> None:
    """Add the flag of a setting and, if it has one, the flag that removes the setting."""
    if setting.switch:
        text = f"{setting.help} ({setting.variable}={setting.switch})"
        given = setting.switch == "true"
        parser.add_argument(setting.flag, dest=setting.name, action="store_const", const=given, help=text)
    else:
        parser.add_argument(
            setting.flag,
            dest=setting.name,
            metavar=setting.metavar,
            choices=setting.choices,
            help=f"{setting.help} ({setting.variable}{setting.default and f'; default: {setting.default}'})",
        )
    if setting.none:
        parser.add_argument(setting.none, dest=setting.name, action="store_const", const="", help=setting.none_help)
