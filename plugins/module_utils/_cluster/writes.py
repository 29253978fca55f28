# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The writes of a step, which do not depend on each other, several at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from .._motor.plan import Write
from .api import Api, Conflict

WRITERS = 8
Object = Mapping[str, Any]
Stored: TypeAlias = "Object | None"


class Writes:
    """Sends writes and keeps account of them: `done` were carried out, `unsure` got no answer and met another state afterwards."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.done: list[Write] = []
        self.unsure: list[Write] = []

    def send(self, writes: Iterable[Write]) -> Iterator[tuple[Write, Stored]]:
        """Send all of them, up to 8 at once; yields those that were carried out, with the object as it was stored (None: deleted).

        Then the first error is raised, after all have ended.
        """
        with ThreadPoolExecutor(WRITERS) as pool:
            answers = [(write, pool.submit(self._send, write)) for write in writes]
        for write, answer in answers:
            error = answer.exception()
            if error is None:
                self.done.append(write)
                yield write, answer.result()
            elif isinstance(error, Conflict) and error.uncertain:
                self.unsure.append(write)
        for dummy, answer in answers:
            answer.result()

    def _send(self, write: Write) -> Stored:
        if write.verb == "create":
            return self._api.create(write.body)
        if write.verb == "delete":
            self._api.delete(write.kind, write.namespace, write.name, preconditions=write.preconditions, propagation=write.propagation)
            return None
        if write.patch:
            return self._api.patch(write.kind, write.namespace, write.name, write.body)
        return self._api.replace(write.body)
