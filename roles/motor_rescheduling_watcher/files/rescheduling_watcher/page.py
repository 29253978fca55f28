# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status page: one HTML text that needs nothing else, and keeps itself up to date by reading state.json beside it.

All that comes from the cluster is put in by the script as text, never as markup; the policy of the page refuses anything else.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError

from .page_frame import BODY, ICON
from .page_script import SCRIPT
from .page_style import STYLE
from .page_words import WORDS


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hash(SCRIPT)}",
        f"style-src {_hash(STYLE)}",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
# As a header; what is about frames counts only there.
POLICY = f"{_POLICY}; frame-ancestors 'none'"


def page(*, language: str = "en", state: Mapping[str, Any] | None = None) -> str:
    """The whole page, in a language that `?lang=` may change. With `state` it shows this report alone and asks no server. Raises InputError."""
    if language not in WORDS:
        raise InputError.at(f"it has to be one of {', '.join(WORDS)}", source="language")
    data = _data("words", WORDS) + ("" if state is None else _data("state", state))
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><link rel="icon" href="{ICON}">'
        f"<title>{WORDS[language]['title']}</title><style>{STYLE}</style>"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="{WORDS[language]["lang"]}" data-language="{language}">\n<head>{head}</head>\n'
        f"<body>\n{BODY}\n{data}<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _data(name: str, value: Mapping[str, Any]) -> str:
    """Data for the script. Without a `<` nothing in it can end its element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>\n'
