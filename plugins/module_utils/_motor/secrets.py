# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which values of user configs and environments are secret, and what is shown in their place."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from .json_reader import Path

HIDDEN = "********"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset(
    {"password", "passwords", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "credential", "credentials", "apikey"}
)
_SECRET_PAIRS = frozenset({"api key", "api keys", "access key", "private key", "secret key", "valid keys"})
# A key that ends so says where the secret is, or something about it, not what it is.
_ABOUT = frozenset({"file", "path", "dir", "directory", "name", "type", "prefix", "timeout", "length", "id", "config"})
# Schemes are short; without a bound, searching a long text would take the square of its length.
_CREDENTIALS_IN_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^/@\s:]*:[^/@\s]+@")

_MARK = re.compile(r"sha256:[0-9a-f]{16}")


def is_secret_key(key: str) -> bool:
    """Whether a value under this key is secret: `db_password`, `api-key`, `HF_TOKEN`; not `passwd_file`, not `max_tokens`."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words or words[-1] in _ABOUT:
        return False
    pairs = {f"{one} {other}" for one, other in itertools.pairwise(words)}
    return bool(_SECRET_WORDS.intersection(words) or _SECRET_PAIRS & pairs)


def mark(data: Any) -> Any:
    """The data with `sha256:<first 16 digits>` in place of secrets: it tells whether two are equal.

    A mark lets one check a guess, so a short password is not safe behind it. Numbers and booleans under a secret key stay:
    they are settings such as `enable_api_key`.
    """
    return _replace(data, False, digest)


def redact(data: Any) -> Any:
    """The data with asterisks in place of secrets, for what people look at."""
    return _replace(data, False, lambda value: HIDDEN)


def values(data: Any) -> tuple[str, ...]:
    """All secrets, each once, in the order of their places, for a caller that hides them in its output."""
    found: dict[str, None] = {}

    def keep(value: str) -> str:
        found.setdefault(value)
        return value

    _replace(data, False, keep)
    return tuple(found)


def places(data: Any) -> dict[Path, str]:
    """Where the secrets are, and what they are."""
    return dict(_places(data, (), False))


def digest(value: str) -> str:
    """The mark of one secret."""
    return "sha256:" + hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def is_mark(value: str) -> bool:
    """Whether a text is what `digest` makes."""
    return _MARK.fullmatch(value) is not None


def _places(value: Any, path: Path, secret: bool) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key), secret or is_secret_key(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*path, index), secret)
    elif _is_secret(value, secret):
        yield path, value


def _is_secret(value: Any, under_secret_key: bool) -> bool:
    return isinstance(value, str) and bool(value) and bool(under_secret_key or _CREDENTIALS_IN_URL.search(value))


def _replace(value: Any, secret: bool, change: Callable[[str], str]) -> Any:
    """A copy of the value with `change` applied to every secret string in it."""
    if isinstance(value, dict):
        return {key: _replace(item, secret or is_secret_key(key), change) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, secret, change) for item in value]
    return change(value) if _is_secret(value, secret) else value
