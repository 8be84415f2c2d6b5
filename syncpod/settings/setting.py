"""One setting: its names, its help, its default, and how its text becomes a value and a value its text again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from syncpod.settings.values import Names, Parser, SettingsInvalid


class _Dataclass(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


T = TypeVar("T")
D = TypeVar("D", bound=_Dataclass)
_SETTING: Final = "setting"


@dataclass(frozen=True, eq=False)
class Setting(Generic[T]):
    """One setting that a flag or a variable gives, and that the node keeps for its next start."""

    name: str
    """The name as an argument of `node_settings`, such as `pod_max_pids`."""
    help: str
    """The help of the worker's command line, without the variable's name."""
    parse: Parser[T]
    """Returns the value of a text that was given, or of the default."""
    default: str = ""
    """The text that a missing or empty one stands for."""
    default_words: str | None = None
    """The default in words, for the help; "" = the help names none; None = the default itself."""
    variable: str = ""
    """The environment variable; usually made from the name, as ``SYNCPOD_POD_MAX_PIDS``."""
    flag: str = ""
    """The flag; usually made from the name, as ``--pod-max-pids``."""
    metavar: str | None = None
    """The placeholder of the value in the help; None = the flag's name in capitals."""
    switch: str = ""
    """The value that the flag stands for, "true" or "false"; "" = the flag takes a value as its argument."""
    choices: tuple[str, ...] | None = None
    may_be_none: bool = False
    """Whether an empty value of the flag removes the value that was set before."""
    none: str = ""
    """A flag without an argument that also removes the value, such as ``--no-manifests``; "" = there is no such
    flag."""
    none_help: str = ""
    has_one_form: bool = False
    """Whether it is kept as the text of its value, so that two texts of one value are not taken for a change."""
    is_passed_on: bool = False
    """Whether `up` gives the worker the value itself, also if nobody gave a text: a command may have changed it, or the
    default is another one in another environment."""

    def __post_init__(self) -> None:
        """Make the names that are not given."""
        object.__setattr__(self, "variable", self.variable or f"SYNCPOD_{self.name.upper()}")
        object.__setattr__(self, "flag", self.flag or f"--{self.name.replace('_', '-')}")

    def __str__(self) -> str:
        """Return the variable, by which an error names the setting."""
        return self.variable

    @property
    def names(self) -> Names:
        """How an error names it."""
        return Names(self.variable, self.flag)

    def read(self, texts: Mapping[str, str], default: str = "") -> T:
        """Return the value, given texts by variable; `default` is a default that only the caller knows.

        Raises SettingsInvalid.
        """
        return self.parse(self.names, texts.get(self.variable) or default or self.default)

    def refused(self, why: Exception) -> SettingsInvalid:
        """Return the error ``why (--flag or VARIABLE)`` for a text that another room refuses."""
        return SettingsInvalid(f"{why} ({self.flag} or {self})")


def of(setting: Setting[T]) -> T:
    """Return a field of a dataclass, with the value of this setting; the setting's default is the field's.

    The declared type is the value's, so that mypy compares the field's type with the parser's.
    """
    return field(default_factory=partial(setting.read, {}), metadata={_SETTING: setting})


def read_fields(kind: type[D], texts: Mapping[str, str], **others: Any) -> D:
    """Return a dataclass with its fields of settings (`of`) read from texts by variable, and with these other fields.

    Raises SettingsInvalid.
    """
    settings = {name: setting for name, setting in settings_of(kind).items() if name not in others}
    return kind(**{name: setting.read(texts) for name, setting in settings.items()}, **others)


def settings_of(kind: type[_Dataclass]) -> dict[str, Setting[Any]]:
    """Return the settings of a dataclass by the names of its fields."""
    return {each.name: each.metadata[_SETTING] for each in fields(kind) if _SETTING in each.metadata}


def text_of(value: object) -> str:
    """Return a text that is parsed to this value: a path, a name, a number, a truth value, or None."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
