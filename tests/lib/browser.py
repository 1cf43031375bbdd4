"""A real browser as a person uses it: pages are opened, clicked, typed into and looked at, over the DevTools protocol on two pipes. Whatever the
browser complains of (exceptions, errors on the console, broken policies) is kept in `complaints`.

    with Browser() as browser:
        tab = browser.tab(size=(1280, 800))
        tab.open("http://127.0.0.1:8080/")
        tab.wait("document.querySelectorAll('tr').length > 3")
"""

import base64
import fcntl
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import cupel as lib

FLAGS = """--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update
    --disable-sync --disable-features=NetworkTimeServiceQuerying --mute-audio --hide-scrollbars --force-device-scale-factor=1
    --remote-debugging-pipe""".split()
QUIET = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
ANSWER_S = 60 * lib.SLOW
KEYS = {
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "Tab": (9, ""),
    "ArrowDown": (40, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowLeft": (37, ""),
    "End": (35, ""),
    "Home": (36, ""),
    "PageDown": (34, ""),
    " ": (32, " "),
}


def program():
    """Where the browser is; None if it is not installed."""
    return shutil.which("chromium")


class Browser:
    """One process of the browser, with a profile of its own that goes with it."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="cupel-browser-")
        to_us, from_browser = os.pipe()
        to_browser, from_us = os.pipe()
        # The browser reads 3 and writes 4; what we hold may be one of those.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (to_browser, from_browser)]
        os.close(to_browser)
        os.close(from_browser)

        def place():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program(), *FLAGS, QUIET, f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=place,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for fd in ends:
            os.close(fd)
        self._write = os.fdopen(from_us, "wb", buffering=0)
        self._read = os.fdopen(to_us, "rb")
        self._last = 0
        self._lock = threading.Lock()
        self._answers, self._tabs = {}, {}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        rest = b""
        while data := os.read(self._read.fileno(), 1 << 16):
            *whole, rest = (rest + data).split(b"\0")
            for text in whole:
                self._take(json.loads(text))

    def _take(self, message):
        if "id" in message:
            self._answers.pop(message["id"]).put(message)
        elif message.get("sessionId") in self._tabs:
            self._tabs[message["sessionId"]].heard(message["method"], message["params"])

    def call(self, method, session=None, **params):
        answer = queue.Queue()
        with self._lock:
            self._last += 1
            self._answers[self._last] = answer
            words = {"id": self._last, "method": method, "params": params}
            if session:
                words["sessionId"] = session
            self._write.write(json.dumps(words).encode() + b"\0")
        message = answer.get(timeout=ANSWER_S)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def tab(self, size=(1280, 800), **how):
        """A tab that shares nothing with the others: storage goes with it."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)
        session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        tab = Tab(self, session["sessionId"])
        self._tabs[tab.session] = tab
        tab.begin(size, **how)
        return tab

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self.process.wait(timeout=10)
        except (subprocess.TimeoutExpired, queue.Empty, OSError):
            os.killpg(self.process.pid, signal.SIGKILL)  # a session of its own
            self.process.wait()
        self._write.close()
        shutil.rmtree(self.profile, ignore_errors=True)


class Tab:
    """One page, and the person before it."""

    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.complaints = []
        self.requests = []

    def call(self, method, **params):
        return self.browser.call(method, session=self.session, **params)

    def begin(self, size, dark=False, phone=False, reduced=False):
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(*size, phone=phone)
        self.look(dark=dark, reduced=reduced)

    def resize(self, width, height, phone=False):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def look(self, dark=False, reduced=False):
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def heard(self, method, params):
        if method == "Runtime.exceptionThrown":
            told = params["exceptionDetails"]
            self.complaints.append(told.get("exception", {}).get("description") or told["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            self.complaints.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def before(self, script):
        """Runs in each page before anything of its own does."""
        self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def run(self, script):
        """The value of an expression, also of one that is a promise."""
        told = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in told:
            details = told["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description") or details["text"])
        return told["result"].get("value")

    def wait(self, script):
        """Waits until the expression is true; gives its value. A page that lost its service tries again after half a minute."""
        found = []

        def holds():
            try:
                found[:] = [self.run(script)]
            except (AssertionError, RuntimeError):  # between two pages
                found[:] = [None]
            return bool(found[0])

        if not lib.wait_until(holds):
            raise AssertionError(f"never true: {script}\n{self.complaints}\n{self.text()[:500]}")
        return found[0]

    def drawn(self):
        """Once what follows from the last act is on the screen."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector="body"):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def wait_text(self, words, selector="body"):
        query = f"document.querySelector({json.dumps(selector)})?.innerText.includes({json.dumps(words)})"
        return self.wait(query)

    def point(self, selector, words=None):
        """The middle of what is named, once it is in sight."""
        script = f"""(() => {{
            const all = [...document.querySelectorAll({json.dumps(selector)})];
            const node = all.find((one) => {json.dumps(words)} === null || one.textContent.trim().startsWith({json.dumps(words)}));
            if (!node) return null;
            node.scrollIntoView({{block: "nearest", behavior: "instant"}});
            const box = node.getClientRects()[0]; // of words on two lines the first
            return box?.width ? [box.left + box.width / 2, box.top + box.height / 2] : null;
        }})()"""
        return self.wait(script)

    def _still(self, selector, words):
        """Where it is once it does not move any more: what is loaded above it pushes it down."""
        at, since = self.point(selector, words), time.monotonic()
        while time.monotonic() < since + 0.15:
            time.sleep(0.03)
            now = self.point(selector, words)
            if now != at:
                at, since = now, time.monotonic()
        return at

    def click(self, selector, words=None):
        x, y = self._still(selector, words)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, selector):
        x, y = self.point(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, *keys, shift=False):
        for key in keys:
            code, text = KEYS.get(key, (ord(key.upper()[0]), key))
            how = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **how)
            self.call("Input.dispatchKeyEvent", type="keyUp", **how)

    def type(self, words):
        self.call("Input.insertText", text=words)

    def scroll(self, y):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=300, y=400, deltaX=0, deltaY=y)

    def picture(self, path):
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        pathlib.Path(path).write_bytes(data)
        return data

    def accessible(self):
        """What a screen reader is told: [(role, name, properties)] of all that is not ignored."""
        self.call("Accessibility.enable")
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (
                node["role"]["value"],
                node.get("name", {}).get("value", ""),
                {p["name"]: p["value"].get("value") for p in node.get("properties", [])},
            )
            for node in nodes
            if not node["ignored"]
        ]
