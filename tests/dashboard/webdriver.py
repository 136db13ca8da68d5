"""A browser for tests: Chromium without a window, driven over the WebDriver protocol (which is JSON
over HTTP) through chromedriver. The standard library is all that it needs."""

import base64
import json
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # how the protocol calls a reference to one
START_S = 60
WAIT_S = 15

# Keys that have no character.
TAB, ENTER, ESCAPE, SHIFT = "\ue004", "\ue007", "\ue00c", "\ue008"

OPTIONS = [
    "--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--disable-extensions",
    "--disable-dev-shm-usage", "--force-color-profile=srgb", "--hide-scrollbars",
    # As root, as in a container, Chromium's own sandbox cannot be set up.
    "--no-sandbox",
]


def find_chromium():
    """(chromium, chromedriver), or None where one of them is missing."""
    found = (shutil.which("chromium"), shutil.which("chromedriver"))
    return found if all(found) else None


class Browser:
    """One window with a profile of its own; a context manager."""

    def __init__(self, width=1280, height=900):
        chromium, chromedriver = find_chromium()
        self._profile = tempfile.TemporaryDirectory(prefix="pulsewheel-browser-",
                                                    ignore_cleanup_errors=True)
        self._driver = subprocess.Popen([chromedriver, "--port=0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self._session = None
        try:
            self._base = f"http://127.0.0.1:{self._driver_port()}"
            answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": {
                    "binary": chromium,
                    "args": OPTIONS + [f"--user-data-dir={self._profile.name}",
                                       f"--window-size={width},{height}"]},
                "goog:loggingPrefs": {"browser": "ALL"}}}})
            self._session = answer["sessionId"]
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._session is not None:
            try:
                self._call("DELETE", f"/session/{self._session}")
            except (OSError, RuntimeError):
                pass  # the driver's end takes the browser with it
            self._session = None
        self._driver.send_signal(signal.SIGTERM)
        try:
            self._driver.wait(10)
        except subprocess.TimeoutExpired:
            self._driver.kill()
            self._driver.wait()
        self._driver.stdout.close()
        self._profile.cleanup()

    def _driver_port(self):
        for line in self._driver.stdout:
            if match := re.search(r"started successfully on port (\d+)", line):
                return int(match[1])
        raise RuntimeError("chromedriver did not start")

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=START_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise RuntimeError(f"{path}: {value['error']}: {value['message']}") from None

    def _do(self, method, path, body=None):
        return self._call(method, f"/session/{self._session}{path}", body)

    # What a person does.

    def open(self, url):
        self._do("POST", "/url", {"url": url})

    def reload(self):
        self._do("POST", "/refresh", {})

    def type(self, text):
        """Types into whatever has the focus."""
        actions = []
        for key in text:
            actions += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._do("POST", "/actions", {"actions": [{"type": "key", "id": "keys",
                                                   "actions": actions}]})

    def press(self, *keys):
        """Presses keys together: press(SHIFT, TAB)."""
        actions = [{"type": "keyDown", "value": key} for key in keys]
        actions += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self._do("POST", "/actions", {"actions": [{"type": "key", "id": "keys",
                                                   "actions": actions}]})

    def click(self, css):
        self._do("POST", f"/element/{self.element(css)}/click", {})

    def fill(self, css, text):
        self.run("const box = document.querySelector(arguments[0]); box.value = ''; box.focus();",
                 css)
        self.type(text)

    # What a person sees.

    def element(self, css):
        return self._do("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def run(self, script, *arguments):
        """The value that the body of a function in JavaScript returns."""
        return self._do("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, css):
        """The text as it is laid out; '' for what is not there."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? '';", css)

    def name_and_role(self, css):
        """What a screen reader says of an element."""
        element = self.element(css)
        return (self._do("GET", f"/element/{element}/computedlabel"),
                self._do("GET", f"/element/{element}/computedrole"))

    def focused(self):
        """The id of the element with the focus, else its name."""
        return self.run("const e = document.activeElement; return e.id || e.localName;")

    def wait_for(self, script, *arguments, what=None):
        """Until a script returns something true, which is returned."""
        end = time.monotonic() + WAIT_S
        while True:
            if value := self.run(script, *arguments):
                return value
            if time.monotonic() > end:
                raise AssertionError(f"did not come: {what or script}; the page says:\n"
                                     + self.text("body"))
            time.sleep(0.05)

    def wait_for_text(self, css, part):
        return self.wait_for(
            "return (document.querySelector(arguments[0])?.innerText ?? '').includes(arguments[1]);",
            css, part, what=f"'{part}' in {css}")

    def errors(self):
        """What the browser's console has got since the last call, refused resources included."""
        return [entry["message"] for entry in self._do("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self):
        """The window as a PNG."""
        return base64.b64decode(self._do("GET", "/screenshot"))

    # What the window is.

    def devtools(self, command, **parameters):
        return self._do("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def emulate(self, width, height, phone=False, **features):
        """A screen of this size in CSS pixels, and media features:
        emulate(..., prefers_color_scheme="dark")."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=0, mobile=phone)
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()])
