"""Drives a headless Chromium over its DevTools protocol, by pipes: no port, no package.

https://chromedevtools.github.io/devtools-protocol/ describes the calls. A page is closed with its browser.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time

import pytest

LIMIT = 20
# Bytes of a picture.
LARGE = 190 << 10
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
           "--hide-scrollbars", "--force-color-profile=srgb", "--font-render-hinting=none", "--mute-audio")  # fmt: skip
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9}


def program():
    """The browser, or a visible skip."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    return found


class Page:
    """One page of one browser."""

    def __init__(self):
        path = program()
        self.directory = tempfile.mkdtemp(prefix="chromium-")
        to_browser, self.write_end = self._pipe()
        self.read_end, from_browser = self._pipe()
        null = os.open(os.devnull, os.O_RDWR)
        moves = [(os.POSIX_SPAWN_DUP2, null, n) for n in (0, 1, 2)]
        moves += [(os.POSIX_SPAWN_DUP2, to_browser, 3), (os.POSIX_SPAWN_DUP2, from_browser, 4)]
        words = [path, *OPTIONS, f"--user-data-dir={self.directory}", "about:blank"]
        self.pid = os.posix_spawn(path, words, os.environ, file_actions=moves, setpgroup=0)
        for descriptor in (to_browser, from_browser, null):
            os.close(descriptor)
        self.number, self.buffer, self.session = 0, b"", None
        self.said, self.requests = [], []
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _pipe():
        """A pipe whose ends are beyond those that the browser is given."""
        ends = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
        for end in ends:
            os.close(end)
        return high

    def call(self, method, **params):
        """A call of the protocol, and its result; events meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        end = time.monotonic() + LIMIT
        while True:
            reply = self._next(end)
            if reply.get("id") == self.number:
                assert "error" not in reply, f"{method}: {reply['error']}"
                return reply["result"]

    def _next(self, end):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self.read_end, 1 << 20)
            assert piece, "the browser ended"
            self.buffer += piece
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        params = message.get("params", {})
        match message.get("method"):
            case "Log.entryAdded":
                self.said.append(f"{params['entry']['level']}: {params['entry']['text']}")
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.said.append("exception: " + details.get("exception", {}).get("description", details["text"]))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case _:
                pass
        return message

    def open(self, url):
        self.call("Page.navigate", url=url)

    def js(self, expression):
        """The value of an expression; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def until(self, expression, limit=LIMIT):
        """Waits until an expression is true, and returns its value."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            with contextlib.suppress(AssertionError):
                if value := self.js(expression):
                    return value
            time.sleep(0.05)
        text = self.js("document.body.innerText")
        pytest.fail(f"never: {expression}\nthe page:\n{text}\nthe browser: {self.said}")

    def key(self, key):
        """Presses and releases a key: a character or one of KEYS."""
        code = KEYS.get(key, ord(key[0].upper()))
        how = {"key": key, "windowsVirtualKeyCode": code}
        typed = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyDown" if typed else "rawKeyDown", **how, **({"text": typed} if typed else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **how)

    def write(self, text):
        """Types into what has the focus."""
        self.call("Input.insertText", text=text)

    def size(self, width, height, scale=1, *, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path, *, whole=False):
        """A screenshot as PNG, of 256 colours if it would be large."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
        from PIL import Image  # noqa: PLC0415, only for pictures that are asked for

        with Image.open(path) as image:
            image.convert("RGB").save(path, optimize=True)
            if path.stat().st_size > LARGE:
                image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def page():
    """A page for the time of a test."""
    made = Page()
    try:
        yield made
    finally:
        made.close()
