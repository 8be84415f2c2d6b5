"""A small plot of curves over minutes, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_WIDTH, _HEIGHT = 760, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 120, 20, 40
_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
_STEPS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def plot(curves: Mapping[str, Sequence[tuple[float, float]]], *, ends: Sequence[float]) -> str:
    """Return the plot of each curve's points (minutes, MiB) as a document; dashed lines are at `ends`, in minutes."""
    last = max(x for points in curves.values() for x, _ in points)
    highest = max(y for points in curves.values() for _, y in points) * 1.1
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x_of(minutes: float) -> float:
        return _LEFT + wide * minutes / last

    def y_of(mib: float) -> float:
        return _TOP + high * (1 - mib / highest)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    for value in _marks(highest):
        lines.append(f'<path d="M{_LEFT} {y_of(value):.1f}h{wide}" stroke="#ddd"/>')
        lines.append(f'<text x="{_LEFT - 6}" y="{y_of(value) + 4:.1f}" text-anchor="end">{value}</text>')
    for value in _marks(last):
        lines.append(f'<text x="{x_of(value):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{value}</text>')
    lines += [f'<path d="M{x_of(end):.1f} {_TOP}v{high}" stroke="#888" stroke-dasharray="4"/>' for end in ends]
    lines.append(f'<text x="{_LEFT}" y="{_TOP - 6}">MiB</text>')
    lines.append(f'<text x="{_LEFT + wide}" y="{_HEIGHT - 6}" text-anchor="end">minutes</text>')
    for (name, points), colour in zip(curves.items(), _COLOURS, strict=False):
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        lines.append(f'<text x="{x_of(last) + 6:.1f}" y="{y_of(points[-1][1]) + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join((*lines, "</svg>")) + "\n"


def _marks(highest: float) -> range:
    """Return about six round numbers from 0 on."""
    step = next((each for each in _STEPS if highest / each <= 7), _STEPS[-1])
    return range(0, int(highest) + 1, step)
