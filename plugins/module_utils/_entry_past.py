# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A revision of the history as the wanted state: its user config and its environment in place of those of the options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._cluster import history as kept
from ._cluster.api import Api
from ._motor import history
from ._motor.errors import Refused
from ._motor.guard import not_deployed
from ._motor.json_reader import Document
from ._motor.ownership import CONFIG_MAP
from ._motor.user_config import UserConfig, parse


class Past:
    """Revision `number` of a live service. Raises Refused when it is not kept, or a secret of it is not the current one any more."""

    def __init__(self, api: Api, namespace: str, number: int) -> None:
        config_map = api.get("ConfigMap", namespace, CONFIG_MAP)
        if config_map is None:
            raise not_deployed(namespace)
        self._current: Mapping[str, str] = config_map.get("data") or {}
        self._revision: Mapping[str, Any] = kept.read(api, namespace, number)
        self.number = number
        self.config: UserConfig = parse(history.restored_config(self._revision, self._current))

    def env(self, given: Document | None, *, release: bool) -> Document | None:
        """The environment to go back to: the given one, else that of the revision, which can be written only into the scripts of a release."""
        if given is not None or history.same_env(self._revision, self._current):
            return given or (history.restored_env(self._revision, self._current) if release else None)
        if not release:
            raise Refused(
                f"Cannot go back to revision {self.number}: the service had another environment then. "
                "Give the release, so that the environment can be written into its scripts.",
                reason="ReleaseNeeded",
            )
        found = history.restored_env(self._revision, self._current)
        if found is None:
            raise Refused(f"Cannot go back to revision {self.number}: its environment is not known. Give the old env.", reason="NotKept")
        return found

    def notices(self, *, release: bool) -> tuple[str, ...]:
        """What is not as it was then, although everything else is."""
        then = (self._revision.get("data") or {}).get("release")
        if release or then == history.release_digest(self._current):
            return ()
        return (
            f"Revision {self.number} ran with the scripts of another release. They stay as they are now, unless you give that release.",
        )
