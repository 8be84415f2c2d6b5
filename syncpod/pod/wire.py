"""The models' JSON form: their base class, the scalar types that JSON does not have, and the size of texts as JSON."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializationInfo,
    StrictBool,
    StrictInt,
)

from syncpod.pod.quantity import parse_quantity

_WORDS = {
    "api": "API", "fqdn": "FQDN", "id": "ID", "io": "IO", "ip": "IP", "ipc": "IPC", "ips": "IPs", "pid": "PID",
}  # fmt: skip
"""Words that Kubernetes writes in capitals, except at the beginning of a name."""


def wire_name(attribute: str) -> str:
    """Return the Kubernetes spelling of a Python attribute: `pod_ips` is `podIPs`, `dns_policy` is `dnsPolicy`."""
    first, *rest = attribute.split("_")
    return first + "".join(_WORDS.get(word, word.capitalize()) for word in rest)


class Model(BaseModel):
    """The base of every model: frozen, accepts attribute and wire names, is written with wire names.

    Unknown fields are ignored, or refused if the caller of `model_validate` passes `extra="forbid"`, as `parse_pod`
    does.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=wire_name,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


def to_wire(model: Model) -> dict[str, Any]:
    """Return the model as JSON-like data in Kubernetes' spelling, without unset and empty fields."""
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def canonical_json(model: Model) -> str:
    """Return the model's wire form as compact JSON with sorted keys: equal models give equal text."""
    return json.dumps(to_wire(model), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


_LARGEST = 12
"""How many bytes the largest character takes as JSON: one beyond the basic plane, such as an emoji."""


def json_size(text: str) -> int:
    """Return how many bytes a text takes as JSON, without its quotes."""
    return len(json.dumps(text)) - 2


def shortened(text: str, limit: int) -> str:
    """Return a text, or its beginning and an ellipsis, of no more than `limit` bytes as JSON (at least 6)."""
    if len(text) * _LARGEST <= limit or json_size(text) <= limit:
        return text
    room = limit - json_size("…")
    return text[: bisect_right(range(min(len(text), limit)), room, key=lambda end: json_size(text[:end])) - 1] + "…"


_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _read_time(value: Any) -> datetime:
    if isinstance(value, str) and _RFC_3339.fullmatch(value):
        moment = datetime.fromisoformat(value.upper())  # keeps microseconds of the nine digits that Go may write
    elif isinstance(value, datetime):
        moment = value
    else:
        raise ValueError("must be an RFC 3339 time such as 2026-01-31T12:00:00Z")
    if moment.tzinfo is None:
        raise ValueError("must have a time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie between the years 1 and 9999 in UTC") from None


def _write_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _read_quantity(value: Any) -> str:
    """Convert numbers to text; the API server accepts `cpu: 1` and `cpu: 0.5` too.

    Surrounding blanks are removed (quantity.go, v1.36, UnmarshalJSON).
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be a quantity such as 100m, 0.5, 64Mi or 129e6")
    try:
        text = str(value).strip()
    except ValueError:  # Python refuses to format an integer with more than 4,300 digits.
        text = ""
    parse_quantity(text)
    return text


Time = Annotated[datetime, BeforeValidator(_read_time), PlainSerializer(_write_time, return_type=str, when_used="json")]
"""A moment in UTC, written as RFC 3339 with `Z`."""

QuantityText = Annotated[str, BeforeValidator(_read_quantity)]
"""A quantity as it was written, such as `100m`; `parse_quantity` reads it."""

Base64 = str
"""Bytes in base64, as on the wire."""

HIDE: Final = "hide"
"""The key, in the context of a serialisation, of the function that hides the values of Secrets in a text."""


def foreign_text(text: str, info: SerializationInfo) -> str:
    """Return the text, with the values of Secrets hidden if the context of this serialisation has a `HIDE` function."""
    hide: Callable[[str], str] | None = info.context.get(HIDE) if info.context else None
    return hide(text) if hide is not None else text


ForeignText = Annotated[str, PlainSerializer(foreign_text, return_type=str)]
"""A text that may contain output of a container, a server or the runtime. A process that sends it to others hides the
values of Secrets in it (`HIDE`). Never use this for a name or an id: those must stay exact, so that they can be looked
up."""

EMPTY_IS_UNSET = BeforeValidator(lambda value: None if value == "" else value)
"""Marks an enum field for which Kubernetes treats `""` as absent."""

Flag = StrictBool
"""True or false, and no other value."""

Int32 = Annotated[StrictInt, Field(ge=-(2**31), lt=2**31)]
"""A 32-bit integer."""

Int64 = Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
"""A 64-bit integer."""


def _read(value: Any) -> int | str:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError("must be an integer or a string")


IntOrString = Annotated[int | str, PlainValidator(_read)]
"""A number, or a text such as a port's name; a number in quotes is a text, as in Kubernetes."""
