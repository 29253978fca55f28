# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of reading texts that are read again and again: as many as are worth their memory, however large single ones are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Result = TypeVar("Result")

# What is made of a text takes about 15 times as much.
MOST_CHARACTERS = 2_000_000


def remembered(work: Callable[..., Result]) -> Callable[..., Result]:
    """A pure function of texts that knows its last results, by all of its arguments, together at most MOST_CHARACTERS long."""
    known: OrderedDict[tuple[Any, ...], Result] = OrderedDict()
    lock = threading.Lock()
    length = 0

    @wraps(work)
    def remembering(*texts: str | None) -> Result:
        nonlocal length
        with lock:
            if texts in known:
                known.move_to_end(texts)
                return known[texts]
        result = work(*texts)
        with lock:
            if texts not in known:
                known[texts] = result
                length += _length(texts)
            while length > MOST_CHARACTERS and len(known) > 1:
                length -= _length(known.popitem(last=False)[0])
        return result

    return remembering


def _length(texts: tuple[str | None, ...]) -> int:
    return sum(len(text or "") for text in texts)
