# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/benchmark.svg: bars of one run as one self-contained file, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

from .measure import Result, Results
from .page import DOWN, UP

# In two parts, so that tools which look for the licence of this file do not find this one.
_LICENCE = "SPDX-License-" + "Identifier: GPL-3.0-or-later"

WIDTH, LEFT, RIGHT = 860, 250, 70
BAR, GAP, GROUP_GAP, PANEL_GAP = 16, 5, 12, 34
_NAMES = {"ours": "ascend.mindie", "list": "k8s, one task, a list", "loop": "k8s, a loop"}

# Contrast with the background is at least 3:1 for bars and 4.5:1 for text in both schemes.
_STYLE = """
:root { --back: #ffffff; --text: #1f2328; --dim: #59636e; --line: #d1d9e0; --ours: #0969da; --list: #8c6d1f; --loop: #6e7781; }
@media (prefers-color-scheme: dark) {
  :root { --back: #0d1117; --text: #e6edf3; --dim: #9198a1; --line: #3d444d; --ours: #58a6ff; --list: #d4a72c; --loop: #8b949e; }
}
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--text); }
.title { font-size: 15px; font-weight: 600; }
.dim { fill: var(--dim); }
.end { text-anchor: end; }
.back { fill: var(--back); }
.axis { stroke: var(--line); }
.ours { fill: var(--ours); } .list { fill: var(--list); } .loop { fill: var(--loop); }
"""


@dataclass
class _Canvas:
    """Elements from top to bottom; `y` is where the next one goes."""

    y: float = 28.0
    elements: list[str] = field(default_factory=list)

    def text(self, x: float, words: str, names: str = "", down: float = 0.0) -> None:
        self.elements.append(f'<text x="{x:g}" y="{self.y + down:g}" class="{names}">{escape(words)}</text>')

    def draw_bar(self, label: str, who: str, value: float, share: float, words: str) -> None:
        width = max(1.0, share * (WIDTH - LEFT - RIGHT))
        self.text(LEFT - 10, label, "end", BAR - 3.5)
        self.elements.append(f'<rect x="{LEFT}" y="{self.y:g}" width="{width:.1f}" height="{BAR}" rx="2" class="{who}"/>')
        self.text(LEFT + width + 6, words, "", BAR - 3.5)
        self.y += BAR + GAP


def draw(results: Results) -> str:
    """The picture: seconds at both latencies, requests and CPU at 20 ms, without waiting."""
    canvas = _Canvas()
    canvas.text(16, "A service from 1 to 16 instances and back, each a Deployment (wait: false, medians)", "title")
    canvas.y += PANEL_GAP
    both = [(what, latency) for what in (UP, DOWN) for latency in (0, 20)]
    _panel(canvas, results, "seconds on the clock", both, lambda result: result.wall, "{:.1f} s")
    _panel(canvas, results, "requests to the API server", [(UP, 20), (DOWN, 20)], lambda result: result.requests, "{:d}")
    _panel(canvas, results, "seconds of CPU in the client", [(UP, 20), (DOWN, 20)], lambda result: result.cpu, "{:.1f} s")
    height = canvas.y - PANEL_GAP + 16
    body = "\n".join(canvas.elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" role="img">\n'
        "<!-- Copyright (c) ascend.mindie contributors\n"
        "GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)\n"
        f"{_LICENCE} -->\n"
        f"<title>{escape('Seconds, requests and CPU seconds of scaling with ascend.mindie and with kubernetes.core')}</title>\n"
        f'<style>{_STYLE}</style>\n<rect class="back" width="100%" height="100%"/>\n{body}\n</svg>\n'
    )


def _panel(
    canvas: _Canvas, results: Results, title: str, groups: list[tuple[str, int]], value: Callable[[Result], float], form: str
) -> None:
    found = [(what, latency, _rows(results, what, latency)) for what, latency in groups]
    longest = max((value(row) for *dummy, rows in found for row in rows), default=1.0)
    canvas.text(16, title, "title")
    canvas.y += 14
    top = canvas.y
    for what, latency, rows in found:
        arrow = what.replace("->", "\u2192")
        canvas.text(16, f"{arrow}, {latency} ms", "dim", BAR - 3.5)
        for row in rows:
            number = value(row)
            canvas.draw_bar(_NAMES[row.case.who], row.case.who, number, number / longest, form.format(number))
        canvas.y += GROUP_GAP
    canvas.elements.append(f'<line x1="{LEFT}" x2="{LEFT}" y1="{top - 4:g}" y2="{canvas.y - GROUP_GAP:g}" class="axis"/>')
    canvas.y += PANEL_GAP - GROUP_GAP


def _rows(results: Results, what: str, latency: int) -> list[Result]:
    return [results.get(backend="deployments", who=who, what=what, latency=latency) for who in _NAMES]
