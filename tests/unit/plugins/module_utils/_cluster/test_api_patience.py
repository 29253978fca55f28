# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that has answered before is waited for when it is away for a while; one that never did is soon given up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import retry
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api, ApiError, Response, TransportError


class Server:
    """Answers, or is away; counts what it is asked. Time passes only while somebody pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.away, self.asked = 0.0, False, list[str]()
        monkeypatch.setattr(retry.time, "monotonic", lambda: self.now)

    def __call__(self, method: str, path: str, *dummy: Any) -> Response:
        self.asked.append(path)
        if self.away:
            raise TransportError("refused")
        return Response(200, json.dumps({"groups": [{"name": "apps"}]}).encode())

    def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def given_up_after(server: Server, api: Api) -> float:
    started = server.now
    with pytest.raises(ApiError, match=r"no answer: refused \(\d+ attempts within \d+ s\)"):
        api.get("Pod", "ns", "p")
    return server.now - started


def test_a_server_that_never_answered_is_given_up_within_two_seconds(server: Server) -> None:
    server.away = True
    assert 0.5 < given_up_after(server, Api(server).pausing(server.pause)) <= 2.0
    assert len(server.asked) > 2


def test_a_server_that_has_answered_is_waited_for(server: Server) -> None:
    api = Api(server).pausing(server.pause)
    api.fenced(lambda: None).get("Pod", "ns", "p")  # one and the same server, whoever asks it
    server.away = True
    assert 15.0 < given_up_after(server, api) <= 20.0


def test_api_groups_are_read_once_and_only_when_somebody_asks(server: Server) -> None:
    api = Api(server)
    copy = api.pausing(server.pause)
    assert server.asked == []
    assert copy.groups == api.groups == frozenset({"apps"}) and api.discovered() is api
    assert server.asked == ["/apis"]


def test_whoever_runs_for_long_learns_of_api_groups_that_came_meanwhile() -> None:
    groups = ["apps"]

    def send(*dummy: Any, **more: Any) -> Response:
        return Response(200, json.dumps({"groups": [{"name": name} for name in groups]}).encode())

    api = Api(send).discovered()
    groups.append("keda.sh")
    assert "keda.sh" not in api.groups and "keda.sh" in api.anew().groups


@pytest.mark.parametrize("terminating", [True, False])
def test_a_namespace_that_is_being_deleted_is_no_question_of_rights(terminating: bool) -> None:
    """The server says both with 403."""
    causes = [{"reason": "NamespaceTerminating", "message": "namespace chat is being terminated"}] if terminating else []
    status = {"reason": "Forbidden", "message": "forbidden", "details": {"name": "x", "causes": causes}}
    api = Api(lambda *dummy, **more: Response(403, json.dumps(status).encode()))
    with pytest.raises(ApiError) as refused:
        api.create({"kind": "ConfigMap", "metadata": {"name": "x", "namespace": "chat"}})
    assert ("Give this user the right" in str(refused.value)) is not terminating
