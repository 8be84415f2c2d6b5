"""How much each client of a server may do: a burst, and then so much a second. Values in, values out."""

from __future__ import annotations

from typing import Final

_REMEMBERED: Final = 1_000
"""With more clients than this, those that have their whole burst again are forgotten."""


class Budget:
    """The spending of each client. `now` is in seconds of any steady clock."""

    def __init__(self, per_second: float, burst: float) -> None:
        """Let each client spend `burst` at once after a pause, and `per_second` on average."""
        self._per_second, self._burst = per_second, burst
        self._spent: dict[str, tuple[float, float]] = {}
        """By client: the amount that still counts, and when that was computed."""
        self._forget_at = _REMEMBERED

    def spend(self, who: str, now: float, amount: float = 1) -> bool:
        """Spend and return True. If there is not so much left, spend nothing and return False."""
        spent = self._spent_by(who, now)
        has_room = spent + amount <= self._burst
        self._spent[who] = (spent + amount if has_room else spent, now)
        if len(self._spent) > self._forget_at:
            self._forget(now)
        return has_room

    def give_back(self, who: str, now: float, amount: float = 1) -> None:
        """Undo what was spent for something that turned out to be in order."""
        self._spent[who] = (max(0.0, self._spent_by(who, now) - amount), now)

    def _spent_by(self, who: str, now: float) -> float:
        spent, counted = self._spent.get(who, (0.0, now))
        return max(0.0, spent - (now - counted) * self._per_second)

    def _forget(self, now: float) -> None:
        self._spent = {who: counted for who, counted in self._spent.items() if self._spent_by(who, now) > 0}
        self._forget_at = max(_REMEMBERED, 2 * len(self._spent))
