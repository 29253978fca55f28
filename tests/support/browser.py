# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A headless Chromium, driven by its DevTools protocol over a pair of pipes, so that nothing but the browser is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS = "needs a Chromium on PATH (Debian's package chromium)"
# The browser reads commands from its descriptor 3 and writes answers to 4; the ends of our pipes have other numbers.
_LAUNCH = "import os, sys; a, b = map(int, sys.argv[1:3]); os.dup2(a, 60); os.dup2(b, 61); os.dup2(60, 3); os.dup2(61, 4); os.execv(sys.argv[3], sys.argv[3:])"
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--proxy-server=direct://",
)


class PageError(AssertionError):
    """A script of a page has failed, or the browser refused a command."""


class Browser:
    """One page of one browser. Uncaught errors and refusals of the page's policy are collected in `errors`."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM, NEEDS
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()
        self._poll = select.poll()  # select knows no descriptors beyond 1023
        self._poll.register(self._answers, select.POLLIN)
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # root may not use it
        command = [
            sys.executable,
            "-c",
            _LAUNCH,
            str(read_commands),
            str(write_answers),
            CHROMIUM,
            *_OPTIONS,
            *sandbox,
            f"--user-data-dir={profile}",
        ]
        ends = (read_commands, write_answers)
        self._process = subprocess.Popen(
            command, pass_fds=ends, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for end in ends:
            os.close(end)
        self._buffer, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the browser."""
        os.close(self._commands)  # it ends when its pipe does
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)

    def send(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        """One command of the protocol; returns its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **({"sessionId": self._session} if self._session else {})}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        for answer in self._messages(60):
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']}")
                result: Mapping[str, Any] = answer["result"]
                return result
        raise PageError(f"{method}: no answer")

    def _messages(self, seconds: float) -> Iterator[Mapping[str, Any]]:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            while b"\0" in self._buffer:
                text, dummy, self._buffer = self._buffer.partition(b"\0")
                message = json.loads(text)
                self._note(message)
                yield message
            if self._poll.poll(1000 * max(0.0, until - time.monotonic())):
                more = os.read(self._answers, 1 << 20)
                if not more:
                    raise PageError("the browser has ended")
                self._buffer += more

    def _note(self, message: Mapping[str, Any]) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            details = message["params"]["exceptionDetails"]
            self.errors.append(str((details.get("exception") or {}).get("description") or details.get("text")))
        entry = message.get("params", {}).get("entry", {})
        if message.get("method") == "Log.entryAdded" and entry.get("source") == "security":
            self.errors.append(str(entry.get("text")))

    def open(self, address: str) -> None:
        """Go to an address and wait until the page has loaded."""
        self.send("Page.navigate", url=address)
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """The value of an expression in the page. It is not bound by the page's policy, which is about the page's own script."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise PageError(str(answer["exceptionDetails"].get("exception", {}).get("description")))
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 20) -> Any:
        """Wait until an expression is true; returns its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(expression)
            if value:
                return value
            time.sleep(0.05)
        raise PageError(f"not within {seconds} s: {expression}")

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """The size of the window in CSS pixels; `phone` lets it behave as the screen of one."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def media(self, *, scheme: str = "light", medium: str = "") -> None:
        """Light or dark; screen or print."""
        self.send("Emulation.setEmulatedMedia", media=medium, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path) -> None:
        """A picture of the whole page."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))
