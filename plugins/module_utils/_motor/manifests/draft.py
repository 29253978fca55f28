# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way in which fields of templates are set: by path, on a private copy, with an error that names the template."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeAlias

from ..errors import InputError

# A path is a tuple of keys; in a list, a number is an index and a word the `name` of an item.
FieldPath: TypeAlias = "tuple[str | int, ...]"

# Maps that a template may leave out because they are empty.
_OPTIONAL_MAPS = frozenset({"labels", "annotations"})


def written(path: FieldPath) -> str:
    """A path in words: `("spec", "containers", 0, "env", "ROLE")` is `spec.containers[0].env.ROLE`."""
    return "".join(f"[{token}]" if isinstance(token, int) else f".{token}" for token in path).removeprefix(".")


class Draft:
    """An object in the making, or a part of one (`at`). `place` says in errors which template it came from."""

    def __init__(self, data: Any, place: str, prefix: FieldPath = ()) -> None:
        self.data = data
        self.place = place
        self.prefix = prefix

    @classmethod
    def of(cls, document: Mapping[str, Any], place: str) -> Draft:
        """A draft of a template's document, which itself is left as it is."""
        return cls(copy.deepcopy(dict(document)), f"{place}, {document['kind']}")

    def at(self, *path: str | int) -> Draft:
        """The part at a path. Raises InputError when the template has no such field."""
        return Draft(self._walk(path), self.place, (*self.prefix, *path))

    def get(self, *path: str | int) -> Any:
        """The value at a path, or None when there is none."""
        found = self.data
        for token in path:
            found = _member(found, token)
        return found

    def set(self, path: FieldPath, value: Any) -> None:
        """Set one field. All that is above it must be in the template (labels and annotations may be left out)."""
        parent = self._walk(path[:-1])
        if not isinstance(parent, dict):
            raise self._missing(path)
        parent[path[-1]] = value

    def drop(self, *path: str | int) -> None:
        """Remove one field of a map, if it is there."""
        parent = self.get(*path[:-1])
        if isinstance(parent, dict):
            parent.pop(path[-1], None)

    def add(self, path: FieldPath, *items: Mapping[str, Any]) -> None:
        """Append items with a `name` to a list; what the template has under that name stays as it is."""
        found = self._walk(path)
        if not isinstance(found, list):
            raise self._missing(path)
        for item in items:
            if _member(found, str(item["name"])) is None:
                found.append(dict(item))

    def _walk(self, path: FieldPath) -> Any:
        found = self.data
        for depth, token in enumerate(path):
            if token in _OPTIONAL_MAPS and isinstance(found, dict) and not found.get(str(token)):
                found[token] = {}
            found = _member(found, token)
            if found is None:
                raise self._missing(path[: depth + 1])
        return found

    def _missing(self, path: FieldPath) -> InputError:
        wrong = "the template lacks this field, which is set for every service: take the template from the release"
        return InputError.at(wrong, source=self.place, path=written((*self.prefix, *path)))


def _member(value: Any, token: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(token)
    if isinstance(value, list):
        if isinstance(token, int):
            return value[token] if token < len(value) else None
        return next((item for item in value if isinstance(item, dict) and item.get("name") == token), None)
    return None
