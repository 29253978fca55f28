# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which values are secret."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import secrets

SECRET = [
    "password",
    "db_password",
    "DB_PASSWD",
    "KEY_PWD",
    "HF_TOKEN",
    "api_key",
    "api-key",
    "apiKey",
    "API_KEYS",
    "valid_keys",
    "AWS_SECRET_ACCESS_KEY",
    "private-key",
]
PLAIN = [
    "passwd_file",
    "key_file",
    "token_path",
    "max_tokens",
    "first_token_timeout",
    "tokenizer-mode",
    "header_name",
    "key_prefix",
    "num_speculative_tokens",
    "secret_name",
    "",
    "keys",
]


@pytest.mark.parametrize("key", SECRET)
def test_secret_keys(key: str) -> None:
    assert secrets.is_secret_key(key)


@pytest.mark.parametrize("key", PLAIN)
def test_plain_keys(key: str) -> None:
    assert not secrets.is_secret_key(key)


DATA: dict[str, Any] = {
    "motor_coordinator_config": {
        "api_key_config": {"enable_api_key": True, "valid_keys": ["one", "two", "one"], "header_name": "Authorization"}
    },
    "motor_common_env": {"HTTP_PROXY": "http://user:pass@proxy:80", "HF_TOKEN": "", "URL": "http://proxy:80/a@b", "PIN_TOKEN": 5},
    "nested": [{"secret": {"deep": "three"}}],
}


def test_redact_hides_secrets_and_nothing_else() -> None:
    assert secrets.redact(DATA) == {
        "motor_coordinator_config": {
            "api_key_config": {"enable_api_key": True, "valid_keys": ["********"] * 3, "header_name": "Authorization"}
        },
        "motor_common_env": {"HTTP_PROXY": "********", "HF_TOKEN": "", "URL": "http://proxy:80/a@b", "PIN_TOKEN": 5},
        "nested": [{"secret": {"deep": "********"}}],
    }


def test_marks_tell_equal_from_different() -> None:
    one, two, again = secrets.mark(DATA)["motor_coordinator_config"]["api_key_config"]["valid_keys"]
    assert one == again != two
    assert one.startswith("sha256:")
    assert len(one) == 23
    assert "one" not in str(secrets.mark(DATA)).replace("motor_common_env", "")


def test_values_lists_secrets_once() -> None:
    assert secrets.values(DATA) == ("one", "two", "http://user:pass@proxy:80", "three")


def test_the_data_stay_as_they_are() -> None:
    before = repr(DATA)
    secrets.redact(DATA)
    assert repr(DATA) == before
