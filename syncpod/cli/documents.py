"""Objects as JSON or YAML, as ``-o json`` and ``-o yaml`` print them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from syncpod.cli.console import say


def print_documents(documents: Sequence[dict[str, Any]], output: str, *, single: bool) -> None:
    """Print a list of objects, or the one by itself; nothing where the one is not there."""
    if single and not documents:
        return
    whole = documents[0] if single else {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    if output == "json":
        say(json.dumps(whole, indent=4))
        return
    import yaml

    yaml.add_representer(str, _block_text, yaml.SafeDumper)
    yaml.safe_dump(whole, sys.stdout, sort_keys=False, allow_unicode=True, width=1000)


def _block_text(dumper: Any, text: str) -> Any:
    """Write text of several lines as a block, as people do."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)
