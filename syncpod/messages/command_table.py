"""The rows of the tables of the signals, updates and queries that workflows accept.

A command is a signal or an update. The tables are `pod_commands`, `node_commands` and `fleet_commands`. Five things are
made from the rows: a workflow's handlers, its rules for signatures, the decoding of payloads, the descriptions that
``temporal workflow metadata`` shows, and the tables of docs/temporal.md. docs/code-map.md lists the files that a new
row touches. `syncpod.pod.model_errors` makes the sentence about a wrong payload.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from syncpod.messages.identity import Message
from syncpod.pod.model_errors import OBJECTS


class Nothing(Message):
    """The payload of a command that needs none. Where commands are signed, it is sent as ``{}``, with a signature."""


Payload = TypeVar("Payload")


class Sender(Enum):
    """The sender of a command. Where commands are signed, every sender has the keys of the node or of the fleet."""

    PERSON = ""
    """A person with `syncpod` or another Temporal client. A misspelt field is refused: otherwise its default would
    apply."""
    PROGRAM = "From the keeper of a list"
    AGENT = "From the node's agent"
    FLEET_NODE = "From the node's own workflow in the fleet"
    FLEET_WORKER = "From the fleet's worker"


class Copies(Enum):
    """The treatment of a copy of a signed signal. Anybody who reaches the server can send a signal again."""

    REFUSED = "refused"
    """The workflow records the number of each signal, and refuses a copy."""
    OBEYED = "obeyed"
    """A copy does no harm. No number is recorded, so no signal is refused for being older than another."""
    JUDGED = "judged"
    """The workflow decides by its own state whether a signal is a copy."""


@dataclass(frozen=True)
class CommandSpec(Generic[Payload]):
    """A signal or an update."""

    name: str
    """Its name on the wire."""
    payload: type[Payload]
    """The model of its payload; `dict`: a document that its effect checks."""
    meaning: str
    """Its request, without a full stop: the beginning of its description, and of its line in docs/temporal.md."""
    sender: Sender = Sender.PERSON
    form: str = ""
    """The payload in words or as JSON, if `payload` is no model."""

    @property
    def shape(self) -> str:
        """The payload as JSON, with all its fields and their defaults; or the form of the document."""
        if self.form or not issubclass(self.payload, BaseModel):
            return self.form
        return json.dumps({field.alias or name: _as_json(field.get_default(call_default_factory=True))
                           for name, field in self.payload.model_fields.items()})  # fmt: skip

    @property
    def example(self) -> str:
        """A valid payload, as arguments of the `temporal` command; a document is described in words."""
        if self.form and self.form[0] != "{":
            return f"{self.form} as JSON, such as by `--input-file FILE`,"
        return f"`--input '{self.shape if self.needs_payload else '{}'}'`"

    @property
    def text(self) -> str:
        """Who sends it and what it requests, as Markdown."""
        if not self.sender.value:
            return self.meaning
        return f"{self.sender.value}: {self.meaning[0].lower()}{self.meaning[1:]}"

    @property
    def description(self) -> str:
        """The description that ``temporal workflow metadata`` and the Temporal UI show."""
        return f"{self.text.replace('`', '')}. Payload: {self.shape}"

    @property
    def needs_payload(self) -> bool:
        """Whether it is refused without a payload, also where commands are not signed."""
        return self.takes_payload

    @property
    def takes_payload(self) -> bool:
        """Whether its payload has any content."""
        return not issubclass(self.payload, Nothing)

    @property
    def is_strict(self) -> bool:
        """Whether a field that its model does not have is refused."""
        return self.sender in (Sender.PERSON, Sender.FLEET_WORKER)

    def decoded(self, given: Any) -> Payload:
        """Return the payload as its model, or unchanged if it is a document. Raises ValidationError."""
        if not issubclass(self.payload, BaseModel):
            return given  # type: ignore[no-any-return]
        if not self.takes_payload:
            return self.payload()
        return self.payload.model_validate(given, extra="forbid" if self.is_strict else None)

    def wrong_kind(self, wrong: ValidationError) -> str:
        """Return the required form of a payload that is no object; "" if only a part of the payload is wrong."""
        problem = wrong.errors(include_url=False, include_input=False)[0]
        return f"must be an object: {self.shape}" if problem["type"] in OBJECTS and not problem["loc"] else ""

    def wrong_number(self, given: int) -> str:
        """Return the clause about a wrong number of payloads, with an example if no payload was sent."""
        one = f": {self.form if self.form and self.form[0] != '{' else '`{}`'} is one"
        return f"takes one payload, got {given}" + ("" if given else one)


@dataclass(frozen=True)
class SignalSpec(CommandSpec[Payload]):
    """A signal."""

    copies: Copies = Copies.REFUSED
    same_as: str = ""
    """The update with the same effect: the pod's history has the signal under the update's name; "" = none."""
    is_resent: bool = False
    """Whether a run that replaces a stuck one does without the signal: the agent sends it again, or it concerned only
    the stuck run."""


@dataclass(frozen=True)
class UpdateSpec(CommandSpec[Payload]):
    """An update."""

    answer: str = "`{}`"
    """Its answer, as docs/temporal.md has it."""
    is_optional: bool = False
    """Whether it may come without a payload where commands are not signed."""

    @property
    def needs_payload(self) -> bool:
        """Whether it is refused without a payload, also where commands are not signed."""
        return self.takes_payload and not self.is_optional


@dataclass(frozen=True)
class QuerySpec:
    """A query."""

    name: str
    meaning: str
    """Its description: what it returns."""
    arguments: str = "none"
    """Its arguments in words."""
    answer: str = ""
    """Its answer with its fields, as docs/temporal.md has it; "" = `meaning`."""

    @property
    def description(self) -> str:
        """The description that ``temporal workflow metadata`` and the Temporal UI show."""
        takes = "" if self.arguments == "none" else f". Arguments: {self.arguments}"
        return f"{self.meaning}{takes}".replace("`", "")


@dataclass(frozen=True)
class CommandTable:
    """The signals, updates and queries of one kind of workflow, by name."""

    signals: Mapping[str, SignalSpec[Any]]
    updates: Mapping[str, UpdateSpec[Any]]
    queries: Mapping[str, QuerySpec]

    @property
    def passed_on(self) -> Mapping[str, str]:
        """The signals that a run gets if it replaces a stuck one, by the purpose of the accepted command.

        An update is sent as the signal with its effect. A signal that the table does not have is not sent, even if an
        update has its name: the stuck run has refused it at once.
        """
        signals = {f"signal/{name}": name for name, signal in self.signals.items() if not signal.is_resent}
        return signals | {f"update/{name}": self.same_as(name) or name for name in self.updates}

    def same_as(self, update: str) -> str:
        """Return the signal that has the effect of an update; "" if there is none."""
        return next((name for name, signal in self.signals.items() if signal.same_as == update), "")


def command_table(*rows: CommandSpec[Any] | QuerySpec) -> CommandTable:
    """Return the table that these rows make, in their order."""
    return CommandTable(
        {row.name: row for row in rows if isinstance(row, SignalSpec)},
        {row.name: row for row in rows if isinstance(row, UpdateSpec)},
        {row.name: row for row in rows if isinstance(row, QuerySpec)},
    )


RENEW: Final = SignalSpec("renew", Nothing, "Continue as new at the next quiet point", is_resent=True)
"""Every workflow accepts it. Any worker, even an older one, can take over the next run."""


def _as_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {}
    return list(value) if isinstance(value, tuple) else value
