# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs playbooks of the collection as AWX does, and gives back what their modules returned."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner

from tests.tools.environment import environment


class PlaybookFailed(Exception):
    """A playbook failed; the message is what its task said."""


@dataclass(frozen=True)
class Outcome:
    """What one run of a playbook did: the results of the collection's modules, and how long it took (seconds)."""

    results: tuple[dict[str, Any], ...]
    seconds: float

    @property
    def actions(self) -> list[dict[str, Any]]:
        """All actions of its modules."""
        return [action for result in self.results for action in result.get("actions") or ()]

    @property
    def service(self) -> dict[str, Any]:
        """The service after the run."""
        return next(result["service"] for result in reversed(self.results) if "service" in result)


def services(**hosts: dict[str, Any]) -> dict[str, Any]:
    """An inventory of services: name to variables."""
    return {"all": {"children": {"motor_services": {"hosts": hosts}}}}


def run(
    playbook: str, inventory: dict[str, Any] | str, kubeconfig: str, *, check: bool = False, path: str = "", **extra_variables: Any
) -> Outcome:
    """Run one playbook over an inventory (data, or text of an INI file). `path` comes first on PATH.

    Raises PlaybookFailed with what went wrong.
    """
    settings = {**environment(), "K8S_AUTH_KUBECONFIG": kubeconfig, "ANSIBLE_LOCALHOST_WARNING": "false"}
    if path:
        settings["PATH"] = f"{path}{os.pathsep}{settings['PATH']}"
    with tempfile.TemporaryDirectory(prefix="mindie-demo-") as folder:
        Path(folder, "env").mkdir()
        started = time.monotonic()
        finished = ansible_runner.run(
            private_data_dir=folder,
            playbook=f"ascend.mindie.{playbook}",
            inventory=inventory,
            extravars=extra_variables,
            envvars=settings,
            cmdline="--check" if check else None,
            quiet=True,
        )
        seconds = time.monotonic() - started
        events = list(finished.events)
    if finished.status != "successful":
        raise PlaybookFailed(f"playbook {playbook}: {_complaint(events)}")
    return Outcome(tuple(_results(events)), seconds)


def _results(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for event in events:
        data = event.get("event_data") or {}
        if event.get("event") == "runner_on_ok" and str(data.get("task_action", "")).startswith("ascend.mindie."):
            found.append(data["res"])
    return found


def _complaint(events: list[dict[str, Any]]) -> str:
    for event in reversed(events):
        if event.get("event") in ("runner_on_failed", "runner_on_unreachable"):
            return str(event["event_data"]["res"].get("msg"))
    return "\n".join(event.get("stdout", "") for event in events[-5:])
