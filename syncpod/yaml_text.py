"""YAML that every reader takes for the same data.

Readers resolve scalars without quotes by different rules: PyYAML by YAML 1.1, go-yaml behind `sigs.k8s.io/yaml` by
parts of YAML 1.1 and 1.2, others by YAML 1.2 alone. A text that any of them could take for something else is quoted.
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
"""Texts that some reader takes for a number or a time, and a few others, which quotes do not harm."""


def yaml_text(document: Any) -> str:
    """Return JSON data as YAML, with the fields in their order and a line for each text of one line."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000))


class _Dumper(yaml.SafeDumper):
    """Writes JSON data; every text is read back as it is."""

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
