# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers x NPUs as small pictures, and the tiers as steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .capacity import Instance, Level, Server, Simulation

# Colours of groups in the style of the page, and shades of one group, so that neighbours differ.
COLOURS, SHADES = 5, 2
# A server: one cell per NPU, columns of 8.
_CELL, _COLUMN, _NARROW, _ROWS = 7, 26, 17, 8
_RACK = 40
_LABEL = 6


@dataclass(frozen=True)
class _Block:
    """NPUs that belong together on one server: of an instance, or something else (`style` says what)."""

    npus: int
    style: str
    label: str = ""
    title: str = ""


def servers(simulation: Simulation, words: Mapping[str, str]) -> str:
    """All servers, in groups of a super pod or of some forty."""
    drawing = _Drawing(simulation, words)
    return "\n".join(drawing.group(title, members) for title, members in _groups(simulation.servers, words))


def marked(simulation: Simulation) -> tuple[str, ...]:
    """Servers that stand out as critical: none, when each one is."""
    names = simulation.critical
    return names if len(names) < sum(server.usable for server in simulation.servers) else ()


def colour(simulation: Simulation, group: str) -> int:
    """The number of the colour of a group."""
    return list(simulation.tiers[0]).index(group) % COLOURS


class _Drawing:
    def __init__(self, simulation: Simulation, words: Mapping[str, str]) -> None:
        self._words = words
        self._critical = set(marked(simulation))
        self._prefix = _common([server.name for server in simulation.servers])
        self._blocks: dict[str, list[_Block]] = {server.name: [] for server in simulation.servers}
        numbers: dict[str, int] = {}
        for instance in simulation.instances:
            place = numbers[instance.group] = numbers.get(instance.group, -1) + 1
            self._add(instance, place, colour(simulation, instance.group))

    def _add(self, instance: Instance, place: int, hue: int) -> None:
        digits = re.search(r"[0-9]+$", instance.name)
        label = digits[0] if digits else str(place)
        for name in dict.fromkeys(instance.pods):
            npus = instance.pods.count(name) * instance.npus_per_pod
            self._blocks[name].append(_Block(npus, f"g{hue} s{place % SHADES}", label, f"{instance.name}: {npus} NPU"))

    def group(self, title: str, members: Sequence[Server]) -> str:
        key = "server_count" if len(members) > 1 else "server_count_one"
        count = self._words[key].format(number=len(members))
        pictures = "".join(self._server(server) for server in members)
        return f'<h3>{escape(title)} <span class="dim">{escape(count)}</span></h3>\n<div class="rack">{pictures}</div>'

    def _server(self, server: Server) -> str:
        blocks = list(self._blocks[server.name])
        taken = sum(block.npus for block in blocks) + server.used
        if server.used:
            blocks.append(_Block(server.used, "used", "", f"{self._words['used']}: {server.used} NPU"))
        free = server.npus - taken
        if free:
            blocks.append(_Block(free, "free", "", f"{self._words['free']}: {free} NPU"))
        columns = -(-server.npus // _ROWS) or 1
        wide = _COLUMN if columns == 1 else _NARROW
        width, height = columns * wide, _CELL * min(_ROWS, server.npus or 1)
        marks = [name for name, on in (("critical", server.name in self._critical), ("unusable", not server.usable)) if on]
        title = self._title(server, blocks, marks)
        body = "".join(self._shapes(blocks, wide)) + self._grid(server, columns, wide)
        drawing = f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{title}"><title>{title}</title>{body}</svg>'
        return (
            f'<figure class="{" ".join(["server", *marks])}">{drawing}<figcaption>{escape(self._short(server.name))}</figcaption></figure>'
        )

    def _title(self, server: Server, blocks: Sequence[_Block], marks: Sequence[str]) -> str:
        lines = [server.name, *(self._words[mark] for mark in marks), *(block.title for block in blocks)]
        return escape("; ".join(lines))

    def _short(self, name: str) -> str:
        rest = name[self._prefix :] or name
        return rest if len(rest) <= _LABEL else f"\u2026{rest[1 - _LABEL :]}"

    @staticmethod
    def _shapes(blocks: Sequence[_Block], wide: int) -> Iterator[str]:
        at = 0
        for block in blocks:
            labelled = False
            left = block.npus
            while left:
                column, row = divmod(at, _ROWS)
                # Whole columns are one rectangle, so that the number is told once.
                rows, columns = (_ROWS, left // _ROWS) if not row and left >= _ROWS else (min(left, _ROWS - row), 1)
                x, y, width = column * wide, row * _CELL, columns * wide
                yield f'<rect x="{x}" y="{y}" width="{width}" height="{rows * _CELL}" class="{block.style}"/>'
                left -= rows * columns
                at += rows * columns
                # One row is too low for a number, unless it is all there is.
                if block.label and (rows > 1 or (not labelled and not left)):
                    labelled = True
                    yield f'<text x="{x + width / 2:g}" y="{y + rows * _CELL / 2 + 3.5:g}">{escape(block.label)}</text>'

    @staticmethod
    def _grid(server: Server, columns: int, wide: int) -> str:
        lines = []
        for npu in range(server.npus):
            column, row = divmod(npu, _ROWS)
            if row:
                lines.append(f"M{column * wide} {row * _CELL}h{wide}")
        lines += [f"M{column * wide} 0v{_ROWS * _CELL}" for column in range(1, columns)]
        return f'<path d="{"".join(lines)}" class="grid"/>' if lines else ""


def _common(names: Sequence[str]) -> int:
    """How many first characters all names share."""
    first, last = min(names, default=""), max(names, default="")
    return next((index for index, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), 0)


def _groups(servers: Sequence[Server], words: Mapping[str, str]) -> Iterator[tuple[str, Sequence[Server]]]:
    pods = {server.super_pod: None for server in servers}
    if len(pods) > 1 or any(pods):
        for pod in sorted(pods, key=lambda name: (not name, len(name), name)):
            title = words["super_pod"].format(name=pod) if pod else words["no_super_pod"]
            yield title, [server for server in servers if server.super_pod == pod]
        return
    for start in range(0, len(servers), _RACK):
        members = servers[start : start + _RACK]
        yield words["rack"].format(first=members[0].name, last=members[-1].name), members


@dataclass(frozen=True)
class Step:
    """A tier (None: below the smallest), or tiers `tier` to `last` where no case ends."""

    tier: int | None
    last: int | None = None


def steps(simulation: Simulation) -> list[Step]:
    """The full size, the smallest tier, all tiers where cases end, and what lies between."""
    ends = {outcome.tier for level in simulation.levels for outcome in level.outcomes}
    count = len(simulation.tiers)
    shown = sorted({0, count - 1, *(tier for tier in ends if tier is not None)})
    found = []
    for position, tier in enumerate(shown):
        found.append(Step(tier))
        following = shown[position + 1] if position + 1 < len(shown) else tier + 1
        if following > tier + 1:
            found.append(Step(tier + 1, following - 1))
    return [*found, Step(None)]


def tier_bar(simulation: Simulation, tier: int) -> str:
    """One step: as long as the tier is large."""
    whole = sum(max(0, size.number) for size in simulation.tiers[0].values()) or 1
    parts, at = [], 0.0
    for group, size in simulation.tiers[tier].items():
        width = 100 * max(0, size.number) / whole
        text = escape(f"{size.number} x {group}")
        parts.append(
            f'<rect x="{at:.2f}%" y="0" width="{width:.2f}%" height="18" class="g{colour(simulation, group)} s0"><title>{text}</title></rect>'
        )
        at += width
    return f'<svg class="bar" width="100%" height="18" role="img">{"".join(parts)}</svg>'


def share(level: Level, tier: int | None) -> float:
    """The share of the cases that end in a tier."""
    return sum(outcome.combinations for outcome in level.outcomes if outcome.tier == tier) / level.combinations
