"""YAML that all readers parse as the same data.

Readers resolve scalars without quotes by different rules: PyYAML by YAML 1.1, go-yaml behind `sigs.k8s.io/yaml` by
parts of YAML 1.1 and 1.2, others by YAML 1.2 alone. A text is quoted if any of them could parse it as another type.
"""

import re
from typing import Any, Final

import yaml

_WORDS: Final = frozenset(("", "~", "null", "true", "false", "y", "yes", "n", "no", "on", "off", "<<", "="))
_NUMBER: Final = re.compile(
    r"""
    [-+]? (?:
        0b [01_]+ | 0o? [0-7_]+
      | 0x [0-9a-f_]+ (?: \.[0-9a-f_]* )? (?: p[-+]?[0-9]+ )?
      | (?: [0-9][0-9_,]* (?: \.[0-9_]* )? | \.[0-9_]+ ) (?: e[-+]?[0-9_]+ )?
      | [0-9][0-9_]* (?: :[0-9]+ )+ (?: \.[0-9_]* )?        # of base 60
      | \.? (?: inf | infinity | nan )
    )
    | [0-9]{4} - [0-9]{1,2} - [0-9]{1,2} (?: [t\s] .* )?    # a time
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""Texts that some reader parses as a number or a time, and a few others, which quotes do not harm."""


def yaml_text(document: Any) -> str:
    """Return JSON data as YAML. Fields keep their order, and a text of one line is not wrapped."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000))


class _Dumper(yaml.SafeDumper):
    """Writes JSON data so that every text is read back unchanged."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """Write text of several lines as a block scalar, and text with control or invisible characters in quotes.

    Between quotes, the escapes of `syncpod.api.views.text.printable` are valid YAML. PyYAML itself does not escape
    right-to-left marks.
    """
    if not text.replace("\n", "").isprintable():
        style = '"'
    elif "\n" in text:
        style = "|"
    else:
        style = "'" if text.casefold() in _WORDS or _NUMBER.fullmatch(text) else ""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style or None)


_Dumper.add_representer(str, _text)
