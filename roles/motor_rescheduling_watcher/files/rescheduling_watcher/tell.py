# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told by Kubernetes Events, at the objects that it is about. What cannot be told is logged, and stops nothing."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.program_shell import rfc3339
from ansible_collections.ascend.mindie.plugins.module_utils._motor import events
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import MotorError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.events import LONGEST_MESSAGE, News

LOG = logging.getLogger(__name__)
# The same news of the same object are told once within this time, whoever leads.
ONCE_SECONDS = 600


class Teller:
    """Writes Events. `api` is fenced by the leadership: only the leader tells."""

    def __init__(self, api: Api, by: str) -> None:
        self._api, self._by = api.pausing(None), by

    def tell(self, about: Mapping[str, Any], news: News, *, for_good: bool = False, instance: str = "") -> None:
        """Tell it at the object, which instances may share. Told already in the last minutes (`for_good`: about this version of the
        object, ever), it is not told again.
        """
        metadata = about["metadata"]
        when = metadata["resourceVersion"] if for_good else str(int(time.time() / ONCE_SECONDS))
        told = (metadata["uid"], news.reason, news.message if for_good else instance, when)
        digest = hashlib.sha256("\n".join(told).encode(errors="replace")).hexdigest()
        short = News(news.reason, news.message[:LONGEST_MESSAGE], news.warning)
        made = events.event(about, short, name=f"{metadata['name'][:200].rstrip('-.')}.{digest[:16]}", at=rfc3339(time.time()), by=self._by)
        try:
            self._api.create(made)
        except MotorError as error:
            if getattr(error, "status", None) != 409:
                LOG.warning("Event not written: %s", error)
