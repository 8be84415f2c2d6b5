"""Objects as JSON, YAML or by JSONPath, as ``-o json``, ``-o yaml`` and ``-o jsonpath=`` print them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.view.jsonpath_template import parse_template

_JSONPATH: Final = "jsonpath"


def is_of_documents(output: str) -> bool:
    """Say whether ``-o`` asks for whole objects, which are printed together when all are there."""
    return output in ("json", "yaml") or output.partition("=")[0] == _JSONPATH


def known_output(output: str, plain: Sequence[str]) -> str:
    """Return how to print: one of the `plain` words, or a JSONPath that can be read. Raises BadInput.

    What stands behind ``-o=`` is taken as well, as kubectl takes it.
    """
    asked = output.removeprefix("=")
    word, _, template = asked.partition("=")
    if word == _JSONPATH:
        try:
            if not template:
                raise ValueError("name a path in braces: jsonpath='{.metadata.name}'")
            parse_template(template)
        except ValueError as wrong:
            raise BadInput(f"--output: jsonpath: {wrong}") from None
    elif asked and asked not in plain:
        raise BadInput(f"--output: must be {', '.join(plain)} or jsonpath='{{PATH}}', not {asked}")
    return asked


def print_documents(documents: Sequence[dict[str, Any]], output: str, *, single: bool) -> None:
    """Print a list of objects, or the one by itself; nothing where the one is not there.

    `output` is one that `is_of_documents`.
    """
    if single and not documents:
        return
    whole = documents[0] if single else {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    if output == "json":
        say(json.dumps(whole, indent=4))
        return
    if output.startswith(_JSONPATH):
        sys.stdout.write(parse_template(output.partition("=")[2]).render(whole))
        return
    import yaml

    yaml.add_representer(str, _block_text, yaml.SafeDumper)
    yaml.safe_dump(whole, sys.stdout, sort_keys=False, allow_unicode=True, width=1000)


def _block_text(dumper: Any, text: str) -> Any:
    """Write text of several lines as a block, as people do."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)
