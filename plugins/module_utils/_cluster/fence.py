# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check at the last moment: a write is sent only while its lock is held, even if the process was stopped in between."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any


class _State(threading.local):
    check: Callable[[], None] | None = None

    def pass_on(self) -> None:
        """Raise what the check raises, where there is one."""
        if self.check:
            self.check()


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


def _pool_classes() -> dict[str, type]:
    """urllib3's pools by scheme, whose connections check before they send. The library is there by the time there is a pool manager."""
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    class Http(HTTPConnection):
        def send(self, data: Any) -> None:
            _STATE.pass_on()
            super().send(data)

    class Https(HTTPSConnection):
        def send(self, data: Any) -> None:
            _STATE.pass_on()
            super().send(data)

    class HttpPool(HTTPConnectionPool):
        ConnectionCls = Http

    class HttpsPool(HTTPSConnectionPool):
        ConnectionCls = Https

    return {"http": HttpPool, "https": HttpsPool}


def install(pool_manager: Any) -> None:
    """Make a urllib3 PoolManager fenced, and leave sending again to us: urllib3 would repeat a write without asking."""
    if pool_manager.connection_pool_kw.get("retries") is False:
        return
    pool_manager.connection_pool_kw["retries"] = False
    pool_manager.pool_classes_by_scheme = _pool_classes()
    pool_manager.clear()
