# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check at the last moment: a write is sent only while its lock is held, even if the process was stopped in between."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

try:
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
except ImportError:  # AnsibleK8SModule reports the missing client library, which brings urllib3
    HTTPConnection = HTTPSConnection = HTTPConnectionPool = HTTPSConnectionPool = object


class _State(threading.local):
    check: Callable[[], None] | None = None


_STATE = _State()


@contextlib.contextmanager
def fenced(check: Callable[[], None] | None) -> Iterator[None]:
    """What this thread sends meanwhile is preceded by `check`, which raises to stop it.

    A request whose head is sent but whose body is not is incomplete: the server does not act on it.
    """
    _STATE.check = check
    try:
        yield
    finally:
        _STATE.check = None


class _Fenced:
    def send(self, data: Any) -> None:
        """Check, then send."""
        if _STATE.check:
            _STATE.check()
        super().send(data)  # type: ignore[misc]  # a mixin of http.client connections


class _Http(_Fenced, HTTPConnection):  # type: ignore[misc]  # its base is dynamic: the library may be missing
    pass


class _Https(_Fenced, HTTPSConnection):  # type: ignore[misc]
    pass


class _HttpPool(HTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _Https


def install(pool_manager: Any) -> None:
    """Make a urllib3 PoolManager fenced, and leave sending again to us: urllib3 would repeat a write without asking."""
    if pool_manager.connection_pool_kw.get("retries") is False:
        return
    pool_manager.connection_pool_kw["retries"] = False
    pool_manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    pool_manager.clear()
