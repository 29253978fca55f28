# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulation as one HTML page that needs nothing else: servers x NPUs, tiers as steps, tables of outcomes; light, dark, on paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from . import capacity_picture as picture
from .capacity import Level, Outcome, Simulation
from .capacity_growth import CRASH, GIVEN_UP, HELD, Held
from .capacity_style import STYLE
from .capacity_words import LANGUAGES, WORDS
from .errors import InputError
from .scaling_rule import SATISFIED

# Rows of a table of outcomes, and names in a list of names.
MOST_ROWS, MOST_NAMES = 12, 8


def page(simulation: Simulation, *, language: str = "en", title: str = "") -> str:
    """The whole page. `language` is en or zh; `title` stands above it (default: what it is about). Raises InputError."""
    if language not in LANGUAGES:
        raise InputError.at(f"it has to be one of {', '.join(LANGUAGES)}", source="language")
    return _Page(simulation, WORDS[language], title).html()


class _Page:
    def __init__(self, simulation: Simulation, words: Mapping[str, str], title: str) -> None:
        self._simulation, self._words = simulation, words
        self._title = title or words["title"]

    def html(self) -> str:
        words = self._words
        head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(self._title)}</title>'
        body = "\n".join(
            [
                f"<h1>{escape(self._title)}</h1>",
                f"<p>{escape(self._summary())}</p>",
                self._cards(),
                self._section("steps", self._steps()),
                self._section("servers", self._servers()),
                self._section(
                    "outcomes", "\n".join(self._outcomes(level) for level in self._simulation.levels[1:] or self._simulation.levels)
                ),
                self._section("model", self._model()),
            ]
        )
        return f'<!DOCTYPE html>\n<html lang="{words["lang"]}">\n<head>{head}<style>{STYLE}</style></head>\n<body><main>\n{body}\n</main></body>\n</html>\n'

    def _section(self, name: str, content: str) -> str:
        return f"<section><h2>{escape(self._words[name])}</h2>\n{content}</section>"

    def _summary(self) -> str:
        shown = self._simulation
        return self._words["summary"].format(
            servers=_number(len(shown.servers)),
            npus=_number(sum(server.npus for server in shown.servers)),
            instances=_number(len(shown.instances)),
            tiers=len(shown.tiers),
            failures=shown.levels[-1].failures,
        )

    def _cards(self) -> str:
        return f'<div class="cards">{"".join(self._card(level) for level in self._simulation.levels)}</div>'

    def _card(self, level: Level) -> str:
        words = self._words
        lines = [("worst", level.worst)]
        if len(level.outcomes) > 1:
            lines.append(("typical", level.typical))
        if level.failures == 0:
            rows = self._card_row(words["running"], level.worst)
        else:
            rows = "".join(self._card_row(words[name], outcome) for name, outcome in lines)
        return f'<div class="card"><h3>{escape(self._level(level))}</h3><dl>{rows}</dl></div>'

    def _card_row(self, name: str, outcome: Outcome) -> str:
        down = " down" if outcome.tier is None else ""
        return (
            f'<dt>{escape(name)}</dt><dd class="{"end" + down}">{escape(self._end(outcome))}'
            f'<span class="dim">{escape(self._running(outcome.running))}</span></dd>'
        )

    def _level(self, level: Level) -> str:
        if level.failures == 0:
            return self._words["now"]
        return self._plural("failures", level.failures)

    def _plural(self, key: str, number: int) -> str:
        return self._words[f"{key}_one" if number == 1 else key].format(number=_number(number))

    def _tier(self, tier: int) -> str:
        last = len(self._simulation.tiers) - 1
        key = "tier_only" if last == 0 else "tier_full" if tier == 0 else "tier_smallest" if tier == last else "tier"
        return self._words[key].format(tier=tier)

    def _end(self, outcome: Outcome) -> str:
        text = self._words["down_short"] if outcome.tier is None else self._words["tier"].format(tier=outcome.tier)
        return f"{text}; {self._words['crash']}" if outcome.crashes else text

    def _running(self, running: Mapping[str, int]) -> str:
        return self._words["and"].join(f"{number} {group}" for group, number in running.items())

    def _steps(self) -> str:
        words, levels = self._words, self._simulation.levels
        heads = "".join(f'<th scope="col">{escape(self._level(level))}</th>' for level in levels)
        rows = "".join(self._step(step) for step in picture.steps(self._simulation))
        return (
            f'<p class="dim">{escape(words["steps_hint"])}</p>{self._legend_groups()}'
            f'<table class="steps"><thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        )

    def _step(self, step: picture.Step) -> str:
        words = self._words
        if step.last is not None:
            key = "tier_skipped" if step.last == step.tier else "tiers_skipped"
            text = words[key].format(first=step.tier, last=step.last)
            return f'<tr class="skipped"><th scope="row" colspan="{len(self._simulation.levels) + 1}">{escape(text)}</th></tr>'
        cells = "".join(self._reached(level, step.tier) for level in self._simulation.levels)
        if step.tier is None:
            return f'<tr class="down"><th scope="row">{escape(words["down"])}</th>{cells}</tr>'
        asks = {group: size.number for group, size in self._simulation.tiers[step.tier].items()}
        label = f'{escape(self._tier(step.tier))} <span class="dim">{escape(self._running(asks))}</span>'
        return f'<tr><th scope="row">{label}{picture.tier_bar(self._simulation, step.tier)}</th>{cells}</tr>'

    def _reached(self, level: Level, tier: int | None) -> str:
        part = picture.share(level, tier)
        label = f'data-label="{escape(self._level(level))}"'
        if not part:
            return f'<td {label} class="none">\u2013</td>'
        names = [name for name, outcome in (("worst", level.worst), ("typical", level.typical)) if outcome.tier == tier]
        marks = "".join(f'<b class="mark {name}" title="{escape(self._words[name])}">{name[0].upper()}</b>' for name in names)
        return f'<td {label} class="reached">{_percent(part)}{marks}</td>'

    def _legend_groups(self) -> str:
        items = []
        for group in self._simulation.tiers[0]:
            key = {self._simulation.shrinks: "role_shrinks", self._simulation.keeps: "role_keeps"}.get(group)
            name = self._words[key].format(group=group) if key else group
            shape = next((shape for shape in self._simulation.shapes if shape.group == group), None)
            if shape:
                words = self._words["pod" if shape.pods == 1 else "pods"].format(pods=shape.pods, npus=shape.npus_per_pod)
                name = f"{name}: {words}"
            items.append(_key(f"g{picture.colour(self._simulation, group)} s0", name))
        return f'<p class="legend">{"".join(items)}</p>'

    def _servers(self) -> str:
        words, shown = self._words, self._simulation
        names = [("free", True), ("used", any(server.used for server in shown.servers))]
        items = "".join(_key(name, words[name]) for name, on in names if on)
        if not all(server.usable for server in shown.servers):
            items += _key("unusable", words["unusable"])
        if picture.marked(shown):
            items += _key("critical", words["critical"])
        return (
            f'<p class="dim">{escape(words["servers_hint"])}</p><p class="legend">{items}</p><p>{escape(self._critical())}</p>'
            f"{picture.servers(shown, words)}"
        )

    def _critical(self) -> str:
        names = picture.marked(self._simulation)
        if not names:
            return self._words["critical_all" if self._simulation.critical else "critical_none"]
        key = "critical_one" if len(names) == 1 else "critical_some"
        return self._words[key].format(number=_number(len(names)), names=self._names(names))

    def _names(self, names: Sequence[str]) -> str:
        shown = list(names[:MOST_NAMES])
        if len(names) > MOST_NAMES:
            shown.append(self._words["and_more"].format(number=len(names) - MOST_NAMES))
        return self._words["list"].join(shown)

    def _outcomes(self, level: Level) -> str:
        words = self._words
        columns = ("share", "ends", "stays", "example", "held", "regrows")
        heads = "".join(f'<th scope="col">{escape(words[name])}</th>' for name in columns)
        shown = self._shown(level)
        rows = "".join(self._outcome(level, outcome, columns) for outcome in shown)
        rest = level.combinations - sum(outcome.combinations for outcome in shown)
        more = ""
        if rest:
            text = words["more_outcomes"].format(number=len(level.outcomes) - len(shown), share=_percent(rest / level.combinations))
            more = f'<p class="dim">{escape(text)}</p>'
        means = words["and"].join(f"{mean:.2f} {group}" for group, mean in level.expected.items())
        cases = words["cases"].format(combinations=self._plural("combinations", level.combinations), means=means)
        return (
            f'<h3>{escape(self._level(level))} <span class="dim">{escape(cases)}</span></h3>'
            f'<table class="outcomes"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{more}'
        )

    @staticmethod
    def _shown(level: Level) -> list[Outcome]:
        """The worst ones, and the typical one in any case."""
        shown = list(level.outcomes[:MOST_ROWS])
        if level.typical not in shown:
            shown[-1] = level.typical
        return shown

    def _outcome(self, level: Level, outcome: Outcome, columns: Iterable[str]) -> str:
        words = self._words
        marks = "".join(
            f'<b class="mark {name}">{escape(words[name])}</b>'
            for name, marked in (("worst", level.worst), ("typical", level.typical))
            if outcome is marked and len(level.outcomes) > 1
        )
        cells = (
            f"{_percent(outcome.share)}{marks}",
            escape(self._end(outcome)),
            escape(self._running(outcome.running)),
            "<br>".join(map(escape, self._example(outcome))) or escape(words["nothing"]),
            "<br>".join(escape(self._held(outcome, held)) for held in outcome.held) or escape(words["nothing"]),
            escape(" \u2192 ".join(_runs(outcome.regrows)) or words["nothing"]),
        )
        row = "".join(f'<td data-label="{escape(words[name])}">{cell}</td>' for name, cell in zip(columns, cells, strict=True))
        return f'<tr class="{"down" if outcome.tier is None else "up"}">{row}</tr>'

    def _example(self, outcome: Outcome) -> Iterator[str]:
        for key, names in (("fails", outcome.servers), ("lost", outcome.lost), ("given_up", outcome.given_up)):
            if names:
                yield self._words[key].format(names=self._names(names))

    def _held(self, outcome: Outcome, held: Held) -> str:
        words = self._words
        facts = {"count": held.count, "group": held.group, "tier": held.tier, "keeps": self._simulation.keeps}
        if held.reason == HELD:
            if held.tier == SATISFIED:
                return words["held_satisfied"].format(**facts)
            asks = self._simulation.tiers[held.tier]
            waits = words["list"].join(
                words["waits"].format(group=group, found=outcome.running.get(group, 0), wanted=size.number)
                for group, size in asks.items()
                if outcome.running.get(group, 0) < size.number
            )
            return words["held_rule"].format(**facts, waits=waits)
        key = {GIVEN_UP: "held_given_up", CRASH: "held_crash"}.get(held.reason, "held_room")
        return words[key].format(**facts)

    def _model(self) -> str:
        shown, words = self._simulation, self._words
        first = shown.shrinks or next(iter(shown.tiers[0]))
        facts = {"shrinks": first, "keeps": shown.keeps}
        keys = ("model_1", "model_2", "model_3" if shown.shrinks else "model_4", "model_5")
        return f"<ul>{''.join(f'<li>{escape(words[key].format(**facts))}</li>' for key in keys)}</ul>"


def _runs(names: Sequence[str]) -> Iterator[str]:
    """Repeated names as one: 3 x prefill."""
    count = 0
    for index, name in enumerate(names):
        count += 1
        if index + 1 == len(names) or names[index + 1] != name:
            yield f"{count} x {name}" if count > 1 else name
            count = 0


def _key(names: str, text: str) -> str:
    square = f'<svg width="14" height="14" class="{names}"><rect x="1" y="1" width="12" height="12" class="{names}"/></svg>'
    return f'<span class="key">{square}{escape(text)}</span>'


def _number(number: int) -> str:
    return f"{number:,}"


def _percent(part: float) -> str:
    """A share that is neither rounded to nothing nor to all."""
    if part >= 1:
        return "100%"
    if part < 0.0001:
        return "&lt;0.01%"
    if part > 0.9999:
        return "&gt;99.99%"
    return f"{100 * part:.2f}%" if part < 0.1 or part > 0.9 else f"{100 * part:.1f}%"
