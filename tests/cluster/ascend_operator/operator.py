# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One running operator: which change leads to which work."""

from __future__ import annotations

import logging
import os
import threading

from ..kube_client import Informer, KubeClient, KubeError, Obj, key_of
from . import objects
from .gate import Crash
from .jobs import Again, Jobs
from .retries import Queue
from .view import View

LOG = logging.getLogger(__name__)

CONFLICT_RETRY = 0.005
PANIC = 2
"""The exit status of a Go program that panics."""


class Operator(threading.Thread):
    """Call ``start``; one worker works until the process ends or ``stop``."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(name="ascend-operator", daemon=True)
        self.view = View(client)
        self._jobs = Jobs(self.view)
        self._queue = Queue()
        self.view.jobs.handler = self._job_changed
        self.view.pods.handler = self._pod_changed
        self.view.pod_groups.handler = self._owned_changed
        self.view.services.handler = self._owned_changed

    def _informers(self) -> tuple[Informer, ...]:
        return self.view.informers()

    def stop(self) -> None:
        """End after the job in work."""
        for informer in self._informers():
            informer.stop()
        self._queue.stop()

    def run(self) -> None:
        """Watch, and work once what jobs own is known."""
        for informer in self._informers():  # jobs come first, so that they are queued in their order
            informer.start()
            informer.synced.wait()
        while (key := self._queue.take()) is not None:
            try:
                self._jobs.reconcile(key)
                self._queue.succeeded(key)
            except Again as again:
                self._queue.succeeded(key)
                self._queue.add_after(key, again.after)
            except Crash as crash:
                LOG.critical("%s/%s: %s", *key, crash)
                LOG.critical("panic: runtime error: invalid memory address or nil pointer dereference [recovered, repanicked]")
                logging.shutdown()
                os._exit(PANIC)
            except Exception as error:
                if isinstance(error, KubeError) and error.status == 409:
                    self._queue.add_after(key, CONFLICT_RETRY)
                    continue
                LOG.warning("%s/%s: %s; again in %.3f s", *key, error, self._queue.failed(key))

    def _job_changed(self, before: Obj | None, after: Obj | None) -> None:
        if after is None:
            return
        if before is None and objects.is_dropped(after):
            LOG.error("AscendJob %s/%s is ignored until it changes: its %s is no integer", *key_of(after), objects.RETRIES)
            return
        self._queue.add(key_of(after))

    def _pod_changed(self, before: Obj | None, after: Obj | None) -> None:
        if after is None and before is not None:
            self._jobs.lost(before)
        self._owned_changed(before, after)

    def _owned_changed(self, before: Obj | None, after: Obj | None) -> None:
        obj = after or before or {"metadata": {}}
        for owner in obj["metadata"].get("ownerReferences") or ():
            if owner["kind"] == objects.ASCEND_JOBS.kind:
                self._queue.add((obj["metadata"]["namespace"], owner["name"]))
