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
    """Return whether ``-o`` asks for whole objects, which are printed as one list."""
    return output in ("json", "yaml") or output.partition("=")[0] == _JSONPATH


def known_output(output: str, plain: Sequence[str]) -> str:
    """Return the output format: one of the `plain` words, or a JSONPath that can be parsed. Raises BadInput.

    Like kubectl, it also takes ``-o=yaml``.
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
    """Print a v1 List of objects; if `single`, the one object by itself, or nothing if there is none.

    `is_of_documents` is true of `output`.
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
    """Write text of several lines as a block scalar."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)
