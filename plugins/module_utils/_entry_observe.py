# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules look at a service, whether they change it or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._cluster.api import Api
from ._cluster.connection import connect
from ._cluster.observe import observe
from ._motor import job_settings
from ._motor.guard import not_deployed
from ._motor.instances import base_name
from ._motor.job_facts import BACKEND as JOBS
from ._motor.job_settings import JobSettings
from ._motor.state import ANY_BACKEND, Build, Snapshot
from ._motor.stored import readable_config, stored_config
from ._motor.user_config import UserConfig


class Observer:
    """One service in one cluster, as the options of a module name it."""

    def __init__(
        self,
        module: Any,
        namespace: str,
        given: UserConfig | None = None,
        *,
        others: Iterable[str] = (),
        absent_ok: bool = False,
        children: Callable[[Snapshot], bool] | None = None,
    ) -> None:
        self._module = module
        self._absent_ok = absent_ok
        self._given = given
        self._others = tuple(others)
        self._children = children
        self.namespace = namespace
        self.api: Api = connect(module)

    def observe(self) -> Snapshot:
        """One snapshot, read as the live service (or else the given config) says it is built."""
        return observe(self.api, self.namespace, self._understand, self._module.warn, self._others, self._children)

    def _understand(self, config_map: Mapping[str, Any] | None) -> Build:
        read = readable_config if self._absent_ok else stored_config
        config = read(config_map) or self._given
        if config is None and not self._absent_ok:
            raise not_deployed(self.namespace)
        backend, name = (config.backend, config.base_name) if config else (ANY_BACKEND, base_name(""))
        settings = self._settings(config_map)
        return Build(backend, settings.name_prefix if backend == JOBS else name, settings)

    def _settings(self, config_map: Mapping[str, Any] | None) -> JobSettings:
        """How AscendJobs are named and grouped: as the options of this task say, else as it was when they were made."""
        params, live = self._module.params, job_settings.read(config_map)
        return job_settings.given(params.get("scaling_rule"), params.get("groups"), params.get("name_prefix"), live)
