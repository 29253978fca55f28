# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads scaling rules that options give: JSON or YAML, a rule or a ConfigMap manifest with one. `_inputs` reads the files."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from ._inputs import described, read_text, read_yaml
from ._motor import json_reader, rule_given
from ._motor.errors import InputError
from ._motor.rule_given import GivenRule
from ._motor.rule_reader import DATA_KEY

with contextlib.suppress(ImportError):  # the module reports the missing library by name before a rule is read
    import yaml

_JSON_BEGINS = re.compile(r"(?:\s|\ufeff|#[^\n]*\n|//[^\n]*\n|/\*.*?\*/)*[\[{]", re.DOTALL)


def read_rule(rule: str | Mapping[str, Any] | None, rule_file: str | None) -> GivenRule | None:
    """The scaling rule of the options `rule` (text or mapping) and `rule_file` (path), None when neither is given.

    A text is JSON or YAML: the rule itself, or a ConfigMap manifest with it. What the JSON of the rule is like is not looked at here.
    Raises InputError when the file cannot be read, or a YAML text is none or has no rule.
    """
    if rule_file is not None:
        return _rule_of_text(read_text("rule_file", rule_file), described("rule_file", rule_file))
    if rule is None:
        return None
    if isinstance(rule, Mapping):
        return rule_given.from_mapping(rule, "rule")
    if not isinstance(rule, str):
        raise InputError.at(f"a {type(rule).__name__} is neither JSON text nor a mapping: give one of them", source="rule")
    return _rule_of_text(rule, "rule")


def _rule_of_text(text: str, source: str) -> GivenRule:
    if _JSON_BEGINS.match(text):
        manifest = _json_manifest(text, source)
        return rule_given.from_manifest(manifest, source) if manifest is not None else rule_given.from_text(text, source)
    documents = [found for found in read_yaml(text, source) if isinstance(found, Mapping)]
    # JSON that lost its first bracket happens to be YAML.
    if not documents or ("kind" not in documents[0] and text.lstrip().startswith('"')):
        return rule_given.from_text(text, source)
    with_rule = [found for found in documents if DATA_KEY in (found.get("data") or ())]
    if len(with_rule) > 1:
        raise InputError.at(f"{len(with_rule)} ConfigMaps have a scaling rule: give a file with the one that is meant", source=source)
    given = rule_given.from_mapping((with_rule or documents)[0], source)
    place = _literal_place(text) if with_rule else None
    return given if place is None else given.moved(*place)


def _json_manifest(text: str, source: str) -> Mapping[str, Any] | None:
    """The ConfigMap of a JSON text as `kubectl get -o json` writes it, or None when it is something else."""
    try:
        found = json_reader.read(text, source=source).data
    except InputError:
        return None
    return found if isinstance(found, dict) and found.get("kind") == "ConfigMap" else None


def _literal_place(text: str) -> tuple[int, int] | None:
    """How many lines stand in front of the rule's text in a manifest, and its indentation; None unless it is a literal block (`|`)."""
    for document in yaml.compose_all(text, Loader=yaml.SafeLoader):
        node = _member(_member(document, "data"), DATA_KEY)
        if isinstance(node, yaml.ScalarNode) and node.style == "|":
            lines = text.split("\n")[node.start_mark.line + 1 :]
            first = next((line for line in lines if line.strip()), "")
            return node.start_mark.line + 1, len(first) - len(first.lstrip(" "))
    return None


def _member(node: Any, key: str) -> Any:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for name, value in pairs if name.value == key), None)
