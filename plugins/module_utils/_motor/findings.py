# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check has found: one form for everything that checks, so that all of it can be shown, sorted and counted alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

ERROR, WARNING, NOTE = "error", "warning", "note"
# The worst first.
SEVERITIES = (ERROR, WARNING, NOTE)


@dataclass(frozen=True)
class Finding:
    """One finding. `code` is stable: one upper-case letter and three digits, in one table per check.

    `line` and `column` (from 1) are the place in the text, `path` is the place in the document, `name` is the object it is about.
    """

    code: str
    severity: str
    message: str
    effect: str
    remedy: str
    line: int | None = None
    column: int | None = None
    path: str = ""
    tier: int | None = None
    group: str | None = None
    name: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As a module returns it: always the same keys."""
        return asdict(self)


def worst(findings: Iterable[Finding]) -> str:
    """The worst severity there is; "" when there are no findings."""
    found = {finding.severity for finding in findings}
    return next((severity for severity in SEVERITIES if severity in found), "")


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first, otherwise in the order given."""
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
