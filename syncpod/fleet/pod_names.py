"""The names of a workload's pods: each pod has a number in its name, or all pods have the same name.

A workload's row in :mod:`syncpod.fleet.workload_traits` says which of the two applies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import ClassVar, Final

from typing_extensions import override

LARGEST_NUMBER: Final = 9_999_999
"""The largest number of a pod."""


class PodNames(ABC):
    """The names that the pods of one kind of workload have."""

    is_shared: ClassVar[bool]
    """All pods of the workload have one name, so each is on another node. The workload chooses between copies."""
    is_passed_over: ClassVar[bool]
    """If the name of a pod is taken on each node that it fits: True = it gets the next number, False = it waits for its
    name."""

    @abstractmethod
    def name(self, workload: str, number: int) -> str:
        """Return the name of the pod with this number."""

    @abstractmethod
    def number(self, workload: str, name: str) -> int | None:
        """Return the number in a pod's name; None if no pod of the workload can have the name.

        If names are shared, the number is arbitrary.
        """

    def free_numbers(self, last: int, taken: Collection[int]) -> Iterator[int]:
        """Yield the numbers for the next pods, from the one after `last`, the newest pod's number.

        After the largest number, the smallest one follows: a stolen node can claim a pod with the largest number, and
        later names must stay valid.
        """
        number = last
        while True:
            number = number % LARGEST_NUMBER + 1
            if number not in taken:
                yield number


class Numbered(PodNames):
    """Pods are called ``web-1``, ``web-2``: a later one has a higher number."""

    is_shared = False
    is_passed_over = True

    @override
    def name(self, workload: str, number: int) -> str:
        return f"{workload}-{number}"

    @override
    def number(self, workload: str, name: str) -> int | None:
        digits = name.removeprefix(f"{workload}-")
        if digits == name or len(digits) > len(str(LARGEST_NUMBER)) or not (digits.isascii() and digits.isdecimal()):
            return None
        number = int(digits)
        return number if name == self.name(workload, number) and 0 < number <= LARGEST_NUMBER else None


class OneName(PodNames):
    """Each pod has the name of its workload. Numbers only distinguish copies."""

    is_shared = True
    is_passed_over = False

    @override
    def name(self, workload: str, number: int) -> str:
        return workload

    @override
    def number(self, workload: str, name: str) -> int | None:
        return 0 if name == workload else None


NUMBERED: Final = Numbered()
ONE_NAME: Final = OneName()
