# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors of the domain. Each says what is wrong and what to do, and carries data that scripts can test."""

from __future__ import annotations

from typing import Any


class MotorError(Exception):
    """Base of all our errors. `reason` is a CamelCase word that scripts can test; `details` end up in the module result,
    `warnings` are shown besides.
    """

    def __init__(self, message: str, *, reason: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.details = details
        self.warnings: list[str] = []


class InputError(MotorError):
    """Bad input. `source` names the option or file, `path` the JSON path (`motor_deploy_config.p_instances_num`).

    `line` and `column` count from 1. They are None where the user wrote no JSON text (a mapping, another kind of file).
    The message is taken as it is; `InputError.at` puts the location in front of it.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "InvalidInput",
        source: str,
        path: str = "",
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        located = {"path": path or None, "line": line, "column": column}
        super().__init__(message, reason=reason, source=source, **{key: value for key, value in located.items() if value is not None})
        self.source = source
        self.path = path
        self.line = line
        self.column = column

    @classmethod
    def at(cls, wrong: str, *, source: str, path: str = "", line: int | None = None, column: int | None = None) -> InputError:
        """The error `<source>, line 3, column 7: <path>: <wrong>`, without the parts that are not known.

        A path that begins with the source (option `instances`, path `instances.prefill`) stands alone.
        """
        place = source if line is None else f"{source}, line {line}, column {column}"
        if path == source or path.startswith(f"{source}."):
            place = ""
        message = ": ".join(part for part in (place, path, wrong) if part)
        return cls(message, source=source, path=path, line=line, column=column)


class Refused(MotorError):
    """A sound request that would do more than the verb may do. `paths` names what it would have changed."""

    def __init__(self, message: str, *, reason: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message, reason=reason, paths=list(paths))
        self.paths = paths
