"""Quantities such as `100m`, `1.5Gi` and `129e6`: exact numbers with a suffix.

Mirrors apimachinery `pkg/api/resource/quantity.go`, v1.36, ParseQuantity. Two deliberate differences: a number must
have a digit (Go reads `+`, `.` and `Ki` as zero), and an exponent beyond ±1000 is refused, which Go lets overflow.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

_NUMBER = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(.*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?\d+)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO = Fraction(1, 10**9)
_LARGEST_EXPONENT = 1000
_LONGEST = 1024
_LARGEST_BINARY = 2**63 - 1


def _away_from_zero(number: Fraction) -> int:
    whole = -(-abs(number.numerator) // number.denominator)
    return whole if number >= 0 else -whole


@dataclass(frozen=True, order=True, slots=True)
class Quantity:
    """An exact number; quantities compare by number only, so `1` equals `1000m`."""

    number: Fraction

    def value(self) -> int:
        """Return the number as an integer, rounded away from zero as Go rounds it up."""
        return _away_from_zero(self.number)

    def milli_value(self) -> int:
        """Return the number in thousandths, rounded away from zero: millicores, for CPU."""
        return _away_from_zero(self.number * 1000)


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """Parse a quantity exactly; anything less than a billionth counts as a billionth.

    Raises ValueError with a sentence about the form of a quantity.
    """
    matched = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if matched is None:
        raise ValueError("must be a quantity such as 100m, 0.5, 64Mi or 129e6")
    sign, digits, suffix = matched.groups()
    scale, largest = _scale(suffix)
    number = Fraction(digits) * scale
    nanos = number / _NANO
    if nanos.denominator != 1:
        number = _away_from_zero(nanos) * _NANO
    if largest is not None:
        number = min(number, Fraction(largest))
    return Quantity(-number if sign == "-" else number)


def quantity_text(quantity: Quantity, *, like: str) -> str:
    """Format a quantity as Kubernetes does: a whole number with the largest suffix that allows one.

    `like` is a quantity as it was written, whose notation is kept: powers of two if the result is exact and at least
    1024, or an exponent (quantity.go, v1.36, CanonicalizeBytes).
    """
    number, suffix = quantity.number, _suffix(like)
    if suffix in _BINARY and number.denominator == 1 and abs(number) >= 1024:
        names, base, count, exponent = {power: name for name, power in _BINARY.items()}, 1024, number.numerator, 0
        while count % base == 0:
            count, exponent = count // base, exponent + 10
        return f"{count}{names.get(exponent, '')}"
    count, exponent = (number / _NANO).numerator, -9
    while count and count % 1000 == 0:
        count, exponent = count // 1000, exponent + 3
    if not count or not exponent:
        return str(count)
    names = {power: name for name, power in _DECIMAL.items()}
    with_exponent = exponent not in names or _EXPONENT.fullmatch(suffix)
    return f"{count}e{exponent}" if with_exponent else f"{count}{names[exponent]}"


def _suffix(text: str) -> str:
    matched = _NUMBER.fullmatch(text)
    return matched[3] if matched else ""


def _scale(suffix: str) -> tuple[Fraction, int | None]:
    """Return a suffix's factor, and its maximum."""
    if suffix in _DECIMAL:
        return Fraction(10) ** _DECIMAL[suffix], None
    if suffix in _BINARY:
        return Fraction(2 ** _BINARY[suffix]), _LARGEST_BINARY
    if exponent := _EXPONENT.fullmatch(suffix):
        if len(exponent[1]) > 5 or abs(int(exponent[1])) > _LARGEST_EXPONENT:
            raise ValueError(f"has an exponent out of range: {suffix[:20]}")
        return Fraction(10) ** int(exponent[1]), None
    raise ValueError(
        f"has an unknown suffix {suffix[:20]!r}; it may be n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an "
        "exponent such as e3"
    )
