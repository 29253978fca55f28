# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock against a server that speaks the wire format: how it is taken, kept, lost and given back."""

from __future__ import annotations

import copy
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api, ApiError, Response, TransportError
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.lock import Lock, LockLost

from .conftest import Clock

INTENT = {"verb": "scale", "run": "1", "by": "me"}
ANNOTATION = "ascend.mindie/intent"
PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
MICRO_TIME = re.compile(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
REASONS = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 500: "InternalError"}


class Server:
    """One Lease, as an API server keeps it. `faults` are used one per request: None, a status instead of doing it, or "lost" (done, unanswered)."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.requests: list[tuple[str, str, Any]] = []
        self.faults: list[Any] = []
        self.during: Callable[[], None] = lambda: None
        self._version = 100

    def __call__(
        self, method: str, path: str, query: Any, body: Any, content_type: str, timeout: Any, stream: bool, fence: Any, accept: str
    ) -> Response:
        assert content_type == "application/json" and not stream
        self.requests.append((method, path, copy.deepcopy(body)))
        self.during()
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, int):
            return self._status(fault)
        if fault == "unreachable":
            raise TransportError("connection refused")
        answer = {"GET": self._get, "POST": self._post, "PUT": self._put, "DELETE": self._delete}[method](body)
        if fault == "lost":
            raise TransportError("connection reset")
        return answer

    def _get(self, body: Any) -> Response:
        return self._answer(self.lease) if self.lease else self._status(404)

    def _post(self, body: Any) -> Response:
        return self._status(409) if self.lease else self._answer(self.store({**body, "metadata": {**body["metadata"], "uid": "u1"}}))

    def _put(self, body: Any) -> Response:
        if self.lease is None:
            return self._status(404)
        same = body["metadata"]["resourceVersion"] == self.lease["metadata"]["resourceVersion"]
        return self._answer(self.store(body)) if same else self._status(409)

    def _delete(self, body: Any) -> Response:
        if self.lease is None:
            return self._status(404)
        if any(self.lease["metadata"][key] != value for key, value in body["preconditions"].items()):
            return self._status(409)
        self.lease = None
        return self._answer({"kind": "Status"})

    def store(self, lease: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        self.lease = copy.deepcopy({**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self._version)}})
        return self.lease

    def change(self, **spec: Any) -> None:
        """Somebody else writes the Lease."""
        assert self.lease
        self.store({**self.lease, "spec": {**self.lease["spec"], **spec}})

    @staticmethod
    def _answer(obj: Any) -> Response:
        return Response(200, json.dumps(obj).encode())

    @staticmethod
    def _status(code: int) -> Response:
        body = {"kind": "Status", "reason": REASONS[code], "message": f"told to say {code}", "details": {"name": "ascend-mindie"}}
        return Response(code, json.dumps(body).encode())

    def writes(self) -> list[str]:
        return [method for method, _path, _body in self.requests if method != "GET"]


@pytest.fixture
def server() -> Server:
    return Server()


class Steered:
    """Lets the renewing thread go round once for each `turn`, and notes for how long it wanted to wait."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._turns, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._ended = False
        self._began = False

    def wait(self, pause: float) -> bool:
        self.pauses.append(pause)
        if self._began:
            self._done.release()
        self._began = True
        self._turns.acquire()
        return self._ended

    def set(self) -> None:
        self._ended = True
        self._turns.release()

    def turn(self, thread: threading.Thread) -> None:
        """One renewal; returns when the thread waits again or has ended."""
        self._turns.release()
        while not self._done.acquire(timeout=0.02):
            if not thread.is_alive():
                return


def make(server: Server, duration: float = 9.0, holder: str = "me/1") -> Lock:
    return Lock(Api(server), "ns", holder, duration)


@pytest.fixture
def held(server: Server, clock: Clock) -> Iterator[tuple[Lock, Steered]]:
    """A lock that is held, whose renewals are steered."""
    lock = make(server)
    steered = lock._stop = Steered()
    assert lock.acquire(None, INTENT) is True
    yield lock, steered
    steered.set()


def turn(held: tuple[Lock, Steered]) -> None:
    lock, steered = held
    assert lock._thread
    steered.turn(lock._thread)


def lost(lock: Lock) -> str:
    with pytest.raises(LockLost) as error:
        lock.check()
    assert error.value.reason == "LockLost" and "Nothing more was written; run the task again." in str(error.value)
    return str(error.value)


def test_a_new_lock_is_one_post_that_says_who_and_for_what(server: Server) -> None:
    lock = make(server, duration=9.7)
    assert lock.acquire(None, INTENT) is True
    ((method, path, body),) = server.requests
    assert (method, path) == ("POST", PATH)
    assert (body["apiVersion"], body["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert body["metadata"]["name"] == "ascend-mindie" and body["metadata"]["namespace"] == "ns"
    assert body["metadata"]["labels"]["app.kubernetes.io/component"] == "lock"
    assert body["metadata"]["annotations"][ANNOTATION] == json.dumps(INTENT, sort_keys=True)
    spec = body["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("me/1", 10, 1), (
        "others must not count fewer seconds"
    )
    assert MICRO_TIME.fullmatch(spec["acquireTime"]) and spec["renewTime"] == spec["acquireTime"]
    assert lock._thread and lock._thread.is_alive() and lock._thread.daemon, "it is renewed, and hinders nobody from ending"
    lock.release(done=True)
    assert not lock._thread.is_alive()


def test_a_lock_shorter_than_a_second_says_one() -> None:
    server = Server()
    make(server, duration=0.5).acquire(None, INTENT)
    assert server.requests[0][2]["spec"]["leaseDurationSeconds"] == 1


def test_a_lock_without_a_duration_lasts_fifteen_seconds() -> None:
    server = Server()
    Lock(Api(server), "ns", "me").acquire(None, INTENT)
    assert server.requests[0][2]["spec"]["leaseDurationSeconds"] == 15


def test_an_observed_lease_is_taken_as_it_was_seen(server: Server) -> None:
    metadata = {"name": "ascend-mindie", "namespace": "ns", "uid": "u0", "labels": {"team": "a"}, "annotations": {"note": "b"}}
    spec = {"holderIdentity": "", "leaseTransitions": 6, "strategy": "old"}
    observed = server.store({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    seen = copy.deepcopy(observed)
    assert make(server).acquire(observed, INTENT) is True
    assert observed == seen, "what was observed stays as it is"
    ((method, path, body),) = server.requests
    assert (method, path) == ("PUT", f"{PATH}/ascend-mindie")
    assert body["metadata"]["resourceVersion"] == seen["metadata"]["resourceVersion"] and body["metadata"]["uid"] == "u0"
    assert body["metadata"]["labels"]["team"] == "a" and body["metadata"]["annotations"]["note"] == "b"
    assert body["spec"]["leaseTransitions"] == 7 and "strategy" not in body["spec"]


def test_a_lease_that_somebody_wrote_since_is_not_taken(server: Server) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "ascend-mindie", "namespace": "ns"}, "spec": {}}
    observed = copy.deepcopy(server.store(lease))
    server.change(holderIdentity="other")
    lock = make(server)
    assert lock.acquire(observed, INTENT) is False and lock._thread is None
    assert make(server).acquire(None, INTENT) is False, "or made since"
    server.lease = None
    assert make(server).acquire(observed, INTENT) is False, "or deleted since"


def test_a_lock_that_was_never_taken_does_not_hold(server: Server) -> None:
    lost(make(server))


def test_what_others_noted_on_the_lease_stays(server: Server) -> None:
    metadata = {"name": "ascend-mindie", "namespace": "ns", "annotations": {"note": "b"}}
    lock = make(server)
    assert lock.acquire(copy.deepcopy(server.store({"kind": "Lease", "metadata": metadata, "spec": {}})), INTENT)
    lock.release(done=True)
    assert server.lease and server.lease["metadata"]["annotations"] == {"note": "b"}


def test_a_lease_whose_annotations_somebody_removed_can_be_given_back(held: tuple[Lock, Steered], server: Server) -> None:
    lock, _steered = held
    assert server.lease
    metadata = {name: value for name, value in server.lease["metadata"].items() if name != "annotations"}
    server.store({**server.lease, "metadata": metadata})
    lock.release(done=True)
    assert server.lease["spec"]["holderIdentity"] == ""


def test_a_lock_that_may_not_be_taken_is_an_error(server: Server) -> None:
    server.faults = [403]
    with pytest.raises(ApiError) as error:
        make(server).acquire(None, INTENT)
    assert error.value.status == 403


def test_the_lock_holds_for_its_duration_and_is_then_lost_for_good(held: tuple[Lock, Steered], clock: Clock) -> None:
    lock, _steered = held
    lock.check()
    clock.now += 9.0
    lock.check()
    clock.now += 0.5
    assert lost(lock).startswith("Lost the lock Lease ns/ascend-mindie: it could not be renewed for 9 s.")
    clock.now -= 5.0
    lost(lock)


def test_the_lock_counts_from_the_sending_of_its_request(server: Server, clock: Clock) -> None:
    def slow() -> None:
        clock.now += 6.0

    server.during = slow
    lock = make(server)
    assert lock.acquire(None, INTENT)
    clock.now += 3.5
    lost(lock)


def test_a_renewal_writes_the_time_and_lets_the_lock_hold_on(held: tuple[Lock, Steered], server: Server, clock: Clock) -> None:
    lock, _steered = held
    before = copy.deepcopy(server.lease)
    assert before
    clock.now += 8.0
    turn(held)
    (method, path, body) = server.requests[-1]
    assert (method, path) == ("PUT", f"{PATH}/ascend-mindie") and len(server.requests) == 2
    assert body["metadata"] == before["metadata"]
    assert {**body["spec"], "renewTime": ""} == {**before["spec"], "renewTime": ""} and body["spec"]["renewTime"] > before["spec"][
        "renewTime"
    ]
    clock.now += 8.0
    lock.check()
    turn(held)
    assert server.writes() == ["POST", "PUT", "PUT"], "the second renewal goes from the answer to the first"
    clock.now += 8.0
    lock.check()


def test_a_renewal_counts_from_its_sending(held: tuple[Lock, Steered], server: Server, clock: Clock) -> None:
    def slow() -> None:
        clock.now += 8.0

    server.during = slow
    turn(held)
    clock.now += 1.5
    lost(held[0])


def test_it_is_renewed_three_times_per_duration_and_sooner_after_a_failure(held: tuple[Lock, Steered], server: Server) -> None:
    lock, steered = held
    turn(held)
    server.faults = [500]
    turn(held)
    turn(held)
    assert steered.pauses == pytest.approx([3.0, 3.0, 0.6, 3.0])
    assert server.writes() == ["POST", "PUT", "PUT", "PUT"], "a renewal is sent once"
    lock.check()


def test_a_lock_that_cannot_be_renewed_says_why(held: tuple[Lock, Steered], server: Server, clock: Clock) -> None:
    lock, _steered = held
    server.faults = ["unreachable"]
    turn(held)
    lock.check()
    clock.now += 10.0
    said = lost(lock)
    assert "could not be renewed for 9 s (" in said and "connection refused" in said


def test_no_renewal_is_sent_when_the_lock_is_lost(held: tuple[Lock, Steered], server: Server, clock: Clock) -> None:
    lock, _steered = held
    clock.now += 9.5
    turn(held)
    assert server.writes() == ["POST"]
    assert lock._thread
    lock._thread.join(5)
    assert not lock._thread.is_alive()


def test_a_lock_that_another_run_took_is_lost(held: tuple[Lock, Steered], server: Server) -> None:
    lock, _steered = held
    server.change(holderIdentity="other/2")
    turn(held)
    assert "other/2 took it" in lost(lock)
    assert lock._thread
    lock._thread.join(5)
    assert not lock._thread.is_alive(), "nobody renews what is lost"


def test_a_lock_that_somebody_emptied_is_lost(held: tuple[Lock, Steered], server: Server) -> None:
    server.change(holderIdentity="")
    turn(held)
    assert "another run took it" in lost(held[0])


def test_a_lock_that_was_deleted_is_lost(held: tuple[Lock, Steered], server: Server) -> None:
    server.lease = None
    turn(held)
    assert "it was deleted" in lost(held[0])


def test_a_renewal_whose_answer_was_lost_does_not_lose_the_lock(held: tuple[Lock, Steered], server: Server, clock: Clock) -> None:
    lock, _steered = held
    server.faults = ["lost"]
    turn(held)
    turn(held)  # refused, as the lost one was carried out: the Lease is read again
    turn(held)
    assert [request[0] for request in server.requests] == ["POST", "PUT", "PUT", "GET", "PUT"]
    clock.now += 8.0
    lock.check()


def test_a_renewal_that_is_refused_is_not_the_end_while_nobody_can_tell(held: tuple[Lock, Steered], server: Server) -> None:
    lock, _steered = held
    server.change(note="touched")
    server.faults = [None, 500]
    turn(held)
    lock.check()
    turn(held)
    turn(held)
    lock.check()
    assert server.lease and server.lease["spec"]["holderIdentity"] == "me/1"


def test_giving_the_lock_back_empties_the_holder_and_clears_the_intent(held: tuple[Lock, Steered], server: Server) -> None:
    lock, _steered = held
    lock.release(done=True)
    lease = server.lease
    assert lease and lease["spec"]["holderIdentity"] == "" and ANNOTATION not in lease["metadata"]["annotations"]
    assert lease["spec"]["leaseTransitions"] == 1 and MICRO_TIME.fullmatch(lease["spec"]["renewTime"])
    assert server.writes() == ["POST", "PUT"] and lock._thread and not lock._thread.is_alive()


def test_after_a_failure_the_intent_stays(held: tuple[Lock, Steered], server: Server) -> None:
    held[0].release(done=False)
    lease = server.lease
    assert lease and lease["spec"]["holderIdentity"] == "" and json.loads(lease["metadata"]["annotations"][ANNOTATION]) == INTENT


@pytest.mark.parametrize("how", ["release", "remove"])
def test_a_lost_answer_does_not_keep_the_lock_from_being_given_back(held: tuple[Lock, Steered], server: Server, how: str) -> None:
    lock, _steered = held
    server.faults = ["lost"]
    turn(held)
    if how == "remove":
        lock.remove()
        assert server.lease is None
    else:
        lock.release(done=True)
        assert server.lease and server.lease["spec"]["holderIdentity"] == ""
    assert [request[0] for request in server.requests][-2:] == ["GET", "PUT" if how == "release" else "DELETE"]


@pytest.mark.parametrize("how", ["release", "remove"])
def test_a_lock_that_another_run_took_is_left_to_it(held: tuple[Lock, Steered], server: Server, how: str) -> None:
    lock, _steered = held
    server.change(holderIdentity="other/2")
    lock.remove() if how == "remove" else lock.release(done=True)
    assert server.lease and server.lease["spec"]["holderIdentity"] == "other/2"
    assert len(server.requests) == 3, "one attempt, one look"
    assert "other/2 took it" in lost(lock)


@pytest.mark.parametrize("how", ["release", "remove"])
def test_a_lock_that_is_touched_again_and_again_is_given_up(held: tuple[Lock, Steered], server: Server, how: str) -> None:
    lock, _steered = held

    def touch() -> None:
        if server.requests[-1][0] in ("PUT", "DELETE"):
            server.change(touched=len(server.requests))

    server.during = touch
    lock.remove() if how == "remove" else lock.release(done=True)
    assert server.writes() == ["POST", *["DELETE" if how == "remove" else "PUT"] * 2]


def test_the_lease_of_a_removed_service_is_deleted_as_it_was_last_written(held: tuple[Lock, Steered], server: Server) -> None:
    lock, _steered = held
    turn(held)
    version = server.lease["metadata"]["resourceVersion"] if server.lease else ""
    lock.remove()
    (method, path, body) = server.requests[-1]
    assert (method, path) == ("DELETE", f"{PATH}/ascend-mindie")
    assert body["preconditions"] == {"uid": "u1", "resourceVersion": version}
    assert server.lease is None and lock._thread and not lock._thread.is_alive()


def test_a_lost_lock_is_not_given_back(held: tuple[Lock, Steered], server: Server, clock: Clock) -> None:
    lock, _steered = held
    clock.now += 9.5
    for give_back in (lambda: lock.release(done=True), lock.remove):
        with pytest.raises(LockLost):
            give_back()
    assert server.writes() == ["POST"]


def test_giving_back_overcomes_what_passes(held: tuple[Lock, Steered], server: Server) -> None:
    server.faults = [500, 500]
    held[0].release(done=True)
    assert server.lease and server.lease["spec"]["holderIdentity"] == ""


def test_a_lock_is_given_back_without_waiting_for_a_renewal_that_hangs(server: Server, clock: Clock) -> None:
    lock = make(server, duration=0.3)
    assert lock.acquire(None, INTENT)
    hanging, reached = threading.Event(), threading.Event()

    def hang() -> None:
        if threading.current_thread() is lock._thread:
            reached.set()
            hanging.wait(20)

    server.during = hang
    assert reached.wait(10)
    started = time.monotonic()
    lock.release(done=True)
    assert time.monotonic() - started < 10 and server.lease and server.lease["spec"]["holderIdentity"] == ""
    hanging.set()
