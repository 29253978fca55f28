# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the adaptor are read strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from metrics_adaptor import settings

from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from tests.cluster.certificates import Authority, pem


def read(**given: Any) -> settings.Settings:
    return settings.read(json.dumps({"namespaces": ["chat"], **given}), source="settings.json")


def test_what_is_left_out_has_its_default() -> None:
    assert read() == settings.Settings(("chat",))
    assert read(namespaces=["*"]).namespaces == ()


def test_everything_can_be_said() -> None:
    given = {
        "interval": 0.5,
        "window": 30,
        "stale_after": 10,
        "frozen_after": 20,
        "timeout": 2,
        "largest": 65536,
        "port": 1,
        "http_port": 2,
    }
    authority = pem(Authority.new("coordinators").certificate).decode()
    found = read(**given, tls={"verify": False, "ca": authority}, certificate="/elsewhere")
    assert all(getattr(found, name) == value for name, value in given.items())
    assert found.tls == settings.Tls(False, authority) and found.certificate == "/elsewhere"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"namespaces": []}, "list of namespaces"),
        ({"namespaces": ["*", "chat"]}, "name no others"),
        ({"intervall": 5}, "unknown"),
        ({"tls": {"verfy": True}}, "unknown"),
        ({"tls": {"verify": "yes"}}, "tls.verify"),
        ({"tls": {"ca": 5}}, "PEM"),
        ({"tls": {"ca": "no PEM"}}, "PEM"),
        ({"interval": 0}, "from 0.5 to 300"),
        ({"interval": True}, "number of seconds"),
        ({"interval": "5"}, "number of seconds"),
        ({"interval": 40}, "less than twice the interval"),
        ({"stale_after": 7}, "less than interval and timeout together"),
        ({"port": 8080}, "is the value of port"),
        ({"port": 0}, "port"),
        ({"certificate": "relative"}, "certificate"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=r"settings\.json, line 1, column") as caught:
        read(**given)
    assert said in str(caught.value)
