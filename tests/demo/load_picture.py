# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load and instances over time: one page with one picture, light and dark, that needs nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .load import Moment

WIDTH, LEFT, RIGHT, TOP = 960, 56, 150, 92
HEIGHT, GAP = 150, 62
TITLE = "Decode follows the load"

# Contrast with the background is at least 3:1 for lines and 4.5:1 for text in both schemes; lines differ in their dashes, too.
_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1f2328; --dim: #59636e; --grid: #d1d9e0; --wait: #bc4c00; --run: #0969da;
  --decode: #0969da; --prefill: #8250df; --slow: #bc4c00; }
@media (prefers-color-scheme: dark) {
  :root { --back: #0d1117; --text: #e6edf3; --dim: #9198a1; --grid: #3d444d; --wait: #f0883e; --run: #58a6ff; --decode: #58a6ff;
    --prefill: #bc8cff; --slow: #f0883e; }
}
body { margin: 0; background: var(--back); }
/* On a phone the words stay large enough, and the picture is moved sideways. */
body { overflow-x: auto; }
svg { display: block; max-width: 100%; min-width: 760px; height: auto; margin: 0 auto; }
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--text); }
.title { font-size: 17px; font-weight: 600; }
.panel { font-weight: 600; }
.dim { fill: var(--dim); }
.end { text-anchor: end; }
.middle { text-anchor: middle; }
.grid { stroke: var(--grid); }
.event { stroke: var(--dim); stroke-dasharray: 2 4; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.thin { stroke-dasharray: 5 4; }
"""


@dataclass(frozen=True)
class Series:
    """One line: its name, its colour, and its value at a moment. `step`: it jumps. `fill`: so much of the colour lies below it."""

    name: str
    colour: str
    value: Callable[[Moment], float | None]
    step: bool = False
    thin: bool = False
    fill: float = 0.0


_PANELS: tuple[tuple[str, tuple[Series, ...]], ...] = (
    (
        "Requests",
        (
            Series("run and wait", "wait", lambda now: now.running + now.waiting, fill=0.25),
            Series("run", "run", lambda now: now.running, fill=0.35),
        ),
    ),
    (
        "Instances",
        (
            Series("decode, wanted", "decode", lambda now: now.wanted, step=True, thin=True),
            Series("decode, serving", "decode", lambda now: now.ready, step=True, fill=0.2),
            Series("prefill", "prefill", lambda now: now.prefill, step=True),
        ),
    ),
    ("Seconds per request", (Series("mean of 2 s", "slow", lambda now: now.latency),)),
)


@dataclass
class _Canvas:
    """Elements of the picture; `y` is where the panel begins, `scale` how many pixels a second has."""

    scale: float
    y: float = TOP
    elements: list[str] = field(default_factory=list)

    def x(self, at: float) -> float:
        return LEFT + at * self.scale

    def text(self, x: float, y: float, words: str, names: str = "") -> None:
        self.elements.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{names}">{escape(words)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, names: str) -> None:
        self.elements.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{names}"/>')


def page(moments: Sequence[Moment]) -> str:
    """The page. Raises ValueError without moments."""
    if not moments:
        raise ValueError("nothing was seen")
    end = max(moments[-1].at, 1.0)
    canvas = _Canvas((WIDTH - LEFT - RIGHT) / end)
    canvas.text(LEFT, 30, TITLE, "title")
    canvas.text(LEFT, 52, _summary(moments), "dim")
    for title, series in _PANELS:
        _panel(canvas, title, series, moments)
    bottom = canvas.y - GAP
    _events(canvas, moments, bottom)
    for second in range(0, int(end) + 1, _round(end / 8)):
        canvas.text(canvas.x(second), bottom + 20, f"{second} s", "dim middle")
    height = bottom + 46 + 20 * sum(bool(now.happened) for now in moments)
    body = "\n".join(canvas.elements)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{TITLE}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<style>{_STYLE}</style>\n</head>\n<body>\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img" aria-label="{escape(_summary(moments))}">\n{body}\n</svg>\n</body>\n</html>\n'
    )


def _summary(moments: Sequence[Moment]) -> str:
    most = max(moments, key=lambda now: now.running + now.waiting)
    counts = [now.ready for now in moments]
    return (
        f"Up to {most.running + most.waiting} requests at once; decode went from {counts[0]} to {max(counts)} and back to {counts[-1]} "
        f"within {moments[-1].at:.0f} s"
    )


def _panel(canvas: _Canvas, title: str, series: Sequence[Series], moments: Sequence[Moment]) -> None:
    known = [value for one in series for value in map(one.value, moments) if value is not None]
    step = _round(max([*known, 1.0]) / 4)
    most = step * math.ceil(max([*known, 1.0]) / step)
    base = canvas.y + HEIGHT
    canvas.text(LEFT, canvas.y - 12, title, "panel")
    for value in range(0, most + 1, step):
        height = base - HEIGHT * value / most
        canvas.line(LEFT, height, WIDTH - RIGHT, height, "grid")
        canvas.text(LEFT - 8, height + 4, str(value), "dim end")
    taken: list[float] = []
    for one in series:
        points = [(canvas.x(now.at), base - HEIGHT * value / most) for now in moments if (value := one.value(now)) is not None]
        _draw(canvas, one, points, base)
        if points:
            _name(canvas, one, taken, base)
    canvas.y = base + GAP


def _draw(canvas: _Canvas, one: Series, points: Sequence[tuple[float, float]], base: float) -> None:
    if not points:
        return
    corners = list(points[:1])
    for (dummy, before), (x, y) in itertools.pairwise(points):
        corners += [(x, before), (x, y)] if one.step else [(x, y)]
    path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
    if one.fill:
        closed = f"{path} L{corners[-1][0]:.1f} {base:.1f} L{corners[0][0]:.1f} {base:.1f} Z"
        canvas.elements.append(f'<path d="{closed}" style="fill: var(--{one.colour}); opacity: {one.fill}"/>')
    names = "line thin" if one.thin else "line"
    canvas.elements.append(f'<path d="{path}" class="{names}" style="stroke: var(--{one.colour})"/>')


def _name(canvas: _Canvas, one: Series, taken: list[float], base: float) -> None:
    """The key of a line, right of its panel, one below the other."""
    y = base - HEIGHT + 14 + 22 * len(taken)
    taken.append(y)
    x = WIDTH - RIGHT + 10
    names = "line thin" if one.thin else "line"
    canvas.elements.append(
        f'<line x1="{x}" y1="{y - 4:.1f}" x2="{x + 16}" y2="{y - 4:.1f}" class="{names}" style="stroke: var(--{one.colour})"/>'
    )
    canvas.text(x + 21, y, one.name)


def _events(canvas: _Canvas, moments: Sequence[Moment], bottom: float) -> None:
    """What happened: a number where it did, with a line through all panels, and the words below."""
    found = [now for now in moments if now.happened]
    for number, now in enumerate(found, start=1):
        x = canvas.x(now.at)
        canvas.line(x, TOP - 2, x, bottom, "event")
        canvas.text(x + 3, TOP + 10, str(number), "dim")
        canvas.text(LEFT, bottom + 26 + 20 * number, f"{number}  after {now.at:.1f} s: {now.happened}")


def _round(number: float) -> int:
    """The least of 1, 2, 5, 10, ... that is not below it."""
    power = 10 ** max(0, math.floor(math.log10(max(number, 1.0))))
    return next(int(factor * power) for factor in (1, 2, 5, 10) if factor * power >= number)
