"""The worker's command line: each flag overrides an environment variable, and the kept setting of the last start."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from syncpod.settings.node import ALLOW_FOREIGN_KUBELET, NodeSettings, node_settings
from syncpod.settings.setting import Setting
from syncpod.settings.table import SETTINGS

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
    parser.add_argument(ALLOW_FOREIGN_KUBELET.flag, action="store_true", default=None, help=ALLOW_FOREIGN_KUBELET.help)
    parser.add_argument(
        "--adopt-cluster",
        action="store_true",
        help="serve on this Temporal server from now on, although another one has the node's pods",
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return parser


def _add(parser: argparse.ArgumentParser, setting: Setting[Any]) -> None:
    """Add the flag of a setting and, if it has one, the flag that removes the setting."""
    if setting.switch:
        text = f"{setting.help} ({setting.variable}={setting.switch})"
        given = setting.switch == "true"
        parser.add_argument(setting.flag, dest=setting.name, action="store_const", const=given, help=text)
    else:
        words = setting.default if setting.default_words is None else setting.default_words
        parser.add_argument(
            setting.flag,
            dest=setting.name,
            metavar=setting.metavar,
            choices=setting.choices,
            help=f"{setting.help} ({setting.variable}{words and f'; default: {words}'})",
        )
    if setting.none:
        parser.add_argument(setting.none, dest=setting.name, action="store_const", const="", help=setting.none_help)
