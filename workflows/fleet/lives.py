"""The lives of a node's worker that have answered the fleet, and whether two of them last at the same time.

A worker has a new life with each start. So a life that is new follows the one before, and that is a restart. A life
that comes back after another one has taken its place goes on beside it: there are two machines.

An answer may be late: the last one of a worker that was killed can arrive after the first one of its next life. So only
an answer to a question that was asked after the first word of the present life counts. And it must happen twice: a
machine whose memory was restored from a snapshot comes back once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from pydantic import BaseModel, ConfigDict

LIVES: Final = 4
"""How many lives are remembered: three machines must be noticed too, and a twin that is restarted again and again."""
ENOUGH: Final = 2
"""The number of returns of a life that prove that there are two machines."""
FORGOTTEN_AFTER: Final = timedelta(minutes=15)
"""How long no life must have come back until the fleet assumes one machine again."""
NEW_FOR: Final = timedelta(minutes=5)
"""How long after the start of a life its node is asked more often, if there was a life before."""
CLOSE_SECONDS: Final = 60.0
"""The longest that a node waits for a change while there may be two machines. Each question may reach the other one."""


class WorkerLife(BaseModel):
    """One life of a worker."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = ""
    machine: str = ""
    """The machine in its own words; "" = it does not say."""
    since: datetime
    """Since when it has been the present one."""


class Lives(BaseModel):
    """The lives of one node's worker, and how often one has come back. Immutable."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    known: tuple[WorkerLife, ...] = ()
    """The present one last; no more than :data:`LIVES`."""
    returns: int = 0
    returned_at: datetime | None = None
    """When a life came back the last time; None = not lately."""

    @property
    def are_two(self) -> bool:
        """Whether two machines are proven."""
        return self.returns >= ENOUGH

    def are_doubtful(self, now: datetime) -> bool:
        """Say whether there may be two machines, so that the node is worth asking more often."""
        return self.returns > 0 or (len(self.known) > 1 and now - self.known[-1].since < NEW_FOR)

    def after(self, life: str, machine: str, asked: datetime, now: datetime) -> Lives:
        """Return the lives after an answer of one of them, to a question that was asked at a time; "" = it is unknown.

        Each life that has come back is forgotten :data:`FORGOTTEN_AFTER` later.
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
