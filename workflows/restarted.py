"""The input of a run, of a pod or of a node, that replaces another run whose tasks failed again and again."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from syncpod.pod.model_errors import first_problem


class Restarted(BaseModel):
    """The agent's record of the run that is replaced."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    why: str = ""
    """The failure of the replaced run's last task."""
    since: str = ""
    """The state from which the run goes on: "its state at 12:03:04", "its node's record"."""
    signals: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    """The signals that came after the state of `since`, oldest first: names and arguments."""
    left_out: int = 0
    """How many later signals are missing in `signals`."""

    @property
    def sentence(self) -> str:
        """The message of the event that reports the replacement."""
        left = f", without {self.left_out} later signal(s)" if self.left_out else ""
        return f"Its workflow could not go on and was started anew from {self.since}{left}: {self.why}"


class CannotBeginAnew(Exception):
    """A run that should replace another cannot begin; the text says why.

    Its task fails, and the agent tries another start.
    """


def restarted(start: Any) -> Restarted | None:
    """Return the start input's record of the replaced run; None if none was replaced. Raises CannotBeginAnew."""
    if not isinstance(start, dict) or "restarted" not in start:
        return None
    try:
        return Restarted.model_validate(start["restarted"])
    except ValidationError as wrong:
        raise CannotBeginAnew(str(first_problem(wrong, "restarted"))) from None


def signals_left(start: Any) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Return the signals that the start input brings from the replaced run: names and arguments, oldest first."""
    said = restarted(start)
    return said.signals if said is not None else ()
