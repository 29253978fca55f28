# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scaling rule as somebody gave it: JSON text, a mapping, or a whole ConfigMap manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import json_reader
from .errors import InputError
from .findings import Finding
from .json_reader import BYTE_ORDER_MARK
from .rule_reader import DATA_KEY, GROUPS, LIST, NUMBER, SERVERS


@dataclass(frozen=True)
class GivenRule:
    """`data` is that of a ConfigMap; `source` names the option or file.

    `typed` is False for a mapping: nobody has seen its text, so that lines and columns stay out of messages.
    `name` and `namespace` are those of a manifest.
    """

    data: Mapping[str, Any]
    source: str
    typed: bool = True
    name: str = ""
    namespace: str = ""

    def with_text(self, text: str) -> GivenRule:
        """The same rule with another text."""
        return replace(self, data={**self.data, DATA_KEY: text})

    def moved(self, lines: int, columns: int) -> GivenRule:
        """The same rule with blanks in front, so that its places are those of the file in which it stands so many lines down and
        indented. To a reader of JSON they mean nothing, as no string goes on over the end of a line.
        """
        text = self.data[DATA_KEY]
        if text.startswith(BYTE_ORDER_MARK):
            return self
        return self.with_text("\n" * lines + "\n".join(" " * columns + line for line in text.split("\n")))

    def placed(self, finding: Finding) -> Finding:
        """A finding without its place where the user wrote no text."""
        if self.typed:
            return finding
        message = finding.message.replace(f", line {finding.line}, column {finding.column}", "", 1)
        return replace(finding, message=message, line=None, column=None)


def from_text(text: str, source: str) -> GivenRule:
    """A rule given as JSON text."""
    return GivenRule({DATA_KEY: text}, source)


def from_mapping(rule: Mapping[str, Any], source: str) -> GivenRule:
    """A rule, or a ConfigMap manifest with one, given as plain data. Raises InputError for what cannot be a rule."""
    if "kind" in rule:
        return from_manifest(rule, source)
    return GivenRule({DATA_KEY: _text(rule, source)}, source, typed=False)


def from_manifest(manifest: Mapping[str, Any], source: str) -> GivenRule:
    """A whole ConfigMap. Raises InputError when it is another kind of object, or its rule is no text."""
    if manifest.get("kind") != "ConfigMap":
        wrong = f"this is a {manifest.get('kind')}: give the ConfigMap with the rule, or the rule alone"
        raise InputError.at(wrong, source=source, path="kind")
    data, metadata = manifest.get("data") or {}, manifest.get("metadata") or {}
    for key, found in (("data", data), ("metadata", metadata)):
        if not isinstance(found, Mapping):
            raise InputError.at(f"a {type(found).__name__} instead of a mapping", source=source, path=key)
    if not isinstance(data.get(DATA_KEY, ""), str):
        wrong = "the value is no text: put a | behind the key, and the JSON text indented below it"
        raise InputError.at(wrong, source=source, path=f'data["{DATA_KEY}"]')
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    return GivenRule(dict(data), source, name=name, namespace=namespace)


def _text(rule: Mapping[str, Any], source: str) -> str:
    """The JSON text of a mapping, in which numbers of instances and servers (2) become texts ("2")."""
    written = dict(rule)
    version = written.get("version")
    if isinstance(version, (int, float)) and not isinstance(version, bool):
        written["version"] = str(version)
    tiers = written.get(LIST)
    if isinstance(tiers, (list, tuple)):
        written[LIST] = [_tier(tier, f"{LIST}[{index}]", source) for index, tier in enumerate(tiers)]
    return json_reader.from_mapping(written, source).text


def _tier(tier: Any, path: str, source: str) -> Any:
    groups = tier.get(GROUPS) if isinstance(tier, Mapping) else None
    if not isinstance(groups, (list, tuple)):
        return tier
    return {**tier, GROUPS: [_group(group, f"{path}.{GROUPS}[{index}]", source) for index, group in enumerate(groups)]}


def _group(group: Any, path: str, source: str) -> Any:
    if not isinstance(group, Mapping):
        return group
    return {key: _number(value, f"{path}.{key}", source) if key in (NUMBER, SERVERS) else value for key, value in group.items()}


def _number(value: Any, path: str, source: str) -> Any:
    if isinstance(value, (bool, float)):
        raise InputError.at(f"{str(value).lower()} is no number of them: write a whole number such as 2", source=source, path=path)
    return str(value) if isinstance(value, int) else value
