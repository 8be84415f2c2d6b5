"""Prints objects for ``-o json``, ``yaml``, ``jsonpath=`` and ``custom-columns=``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from syncpod.api.views.text import columns, printable
from syncpod.cli.console import harmless, say
from syncpod.cli.failure import BadInput
from syncpod.cli.view.custom_columns import CustomColumns, parse_columns, parse_template
from syncpod.cli.view.jsonpath_template import parse_template as parse_jsonpath

_JSONPATH: Final = "jsonpath"
_COLUMNS: Final = "custom-columns"
_COLUMNS_FILE: Final = "custom-columns-file"


def is_of_documents(output: str) -> bool:
    """Return whether ``-o`` requests whole objects, which are printed as one list."""
    return output in ("json", "yaml") or output.partition("=")[0] in (_JSONPATH, _COLUMNS, _COLUMNS_FILE)


def picks_fields(output: str) -> bool:
    """Return whether ``-o`` prints chosen fields only: then a missing field looks like an empty one."""
    return output.partition("=")[0] in (_JSONPATH, _COLUMNS, _COLUMNS_FILE)


def known_output(output: str, plain: Sequence[str]) -> str:
    """Return the output format: one of the `plain` words, a JSONPath, or custom columns. Raises BadInput.

    Like kubectl, it also takes ``-o=yaml``.
    """
    asked = output.removeprefix("=")
    word, _, template = asked.partition("=")
    if word == _JSONPATH:
        try:
            if not template:
                raise ValueError("name a path in braces: jsonpath='{.metadata.name}'")
            parse_jsonpath(template)
        except ValueError as wrong:
            raise BadInput(f"--output: jsonpath: {wrong}") from None
    elif word in (_COLUMNS, _COLUMNS_FILE):
        _columns(asked)
    elif word.startswith("go-template"):
        raise BadInput(f"--output: {word} is not here: jsonpath='{{PATH}}' prints fields, and -o json is for `jq`")
    elif asked and asked not in plain:
        ways = "jsonpath='{PATH}' or custom-columns=NAME:PATH,..."
        raise BadInput(f"--output: must be {', '.join(plain)}, {ways}, not {asked}")
    return asked


def _columns(output: str) -> CustomColumns:
    """Return the columns of ``custom-columns=`` or ``custom-columns-file=``. Raises BadInput."""
    word, _, text = output.partition("=")
    try:
        if word == _COLUMNS:
            return parse_columns(text)
        return parse_template(Path(text).read_text())
    except OSError as error:
        raise BadInput(f"--output: {text}: {os.strerror(error.errno or 0)}") from None
    except ValueError as wrong:
        raise BadInput(f"--output: {word}: {wrong}") from None


def print_documents(documents: Sequence[dict[str, Any]], output: str, *, single: bool, headers: bool = True) -> None:
    """Print a v1 List of objects; if `single`, print the one object alone, or nothing without an object.

    `is_of_documents(output)` must be true. Custom columns have a line for each object, below their names if `headers`.
    """
    if output.startswith(_COLUMNS):
        chosen = _columns(output)
        head = [list(chosen.header)] if headers else []
        for line in columns([*head, *map(chosen.row, documents)]) if documents else ():
            say(line)
        return
    if single and not documents:
        return
    whole = documents[0] if single else {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    if output == "json":
        say(json.dumps(whole, indent=4))
        return
    if output.startswith(_JSONPATH):
        rendered = parse_jsonpath(output.partition("=")[2]).render(whole)
        sys.stdout.write(harmless(rendered, sys.stdout) if sys.stdout.isatty() else rendered)
        return
    from syncpod.yaml_text import yaml_text

    sys.stdout.write("\n".join(map(printable, yaml_text(whole).split("\n"))))
