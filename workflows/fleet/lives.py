"""The lives of a node's worker, by its answers to the fleet, and whether two of them run at the same time.

Each start of a worker begins a new life. If a new life answers, the worker was restarted. If an earlier life answers
again after a newer one, both run: there are two machines.

The last answer of a killed worker can arrive after the first answer of its next life. So an answer counts only if its
request was sent after the present life had first answered. And a life must come back twice: a machine whose memory was
restored from a snapshot comes back once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from pydantic import BaseModel, ConfigDict

LIVES: Final = 4
"""How many lives are recorded: enough to notice three machines, or a second one that restarts again and again."""
ENOUGH: Final = 2
"""How many returns of a life prove that there are two machines."""
FORGOTTEN_AFTER: Final = timedelta(minutes=15)
"""If no life has come back for this long, the fleet assumes one machine again."""
NEW_FOR: Final = timedelta(minutes=5)
"""For this long after a new life has begun, its node gets more requests. The first recorded life does not count."""
CLOSE_SECONDS: Final = 60.0
"""The most seconds that a node waits for a change while two machines may answer: each request reaches only one."""


class WorkerLife(BaseModel):
    """One life of a worker."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = ""
    machine: str = ""
    """The machine's own name and address; "" = it sends none."""
    since: datetime
    """When it became the present life."""


class Lives(BaseModel):
    """The lives of one node's worker, and how often an earlier one has come back. Immutable."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    known: tuple[WorkerLife, ...] = ()
    """The recorded lives, the present one last; no more than :data:`LIVES`."""
    returns: int = 0
    returned_at: datetime | None = None
    """When a life last came back; None = not lately."""

    @property
    def are_two(self) -> bool:
        """Whether two machines are proven."""
        return self.returns >= ENOUGH

    def are_doubtful(self, now: datetime) -> bool:
        """Say whether there may be two machines, so that the node should get more requests."""
        return self.returns > 0 or (len(self.known) > 1 and now - self.known[-1].since < NEW_FOR)

    def after(self, life: str, machine: str, asked: datetime, now: datetime) -> Lives:
        """Return the lives after an answer of `life` to a request that was sent at `asked`; `life` "" = unknown.

        The count of returns is reset once no life has come back for :data:`FORGOTTEN_AFTER`.
        """
        returns, returned_at = self.returns, self.returned_at
        if returned_at is not None and now - returned_at >= FORGOTTEN_AFTER:
            returns, returned_at = 0, None
        known = self.known
        present = known[-1] if known else None
        if life and present is not None and life == present.id:
            known = (*known[:-1], present.model_copy(update={"machine": machine}))
        elif life and (present is None or asked >= present.since):
            if any(each.id == life for each in known):
                returns, returned_at = min(returns + 1, ENOUGH), now
            others = tuple(each for each in known if each.id != life)
            known = (*others, WorkerLife(id=life, machine=machine, since=now))[-LIVES:]
        return Lives(known=known, returns=returns, returned_at=returned_at)
