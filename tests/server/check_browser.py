#!/usr/bin/env python3
"""The page at "/" in Chromium, over its DevTools protocol: no error, no refused script, style or fetch; its form gives a prediction; its rates move.

    check_browser.py PROGRAM [TEST...]      77: there is no Chromium, or this build cannot serve
"""
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from serving import main, Server, Tests

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if not CHROMIUM:
    print("skipped: there is no Chromium")
    sys.exit(77)


class Browser:
    """One page. Messages are JSON with a NUL behind each, through two pipes (--remote-debugging-pipe)."""

    def __init__(self, folder):
        to_browser, self.to = os.pipe()
        self.from_, from_browser = os.pipe()

        def pipes():  # as Chromium expects them
            read, write = os.dup(to_browser), os.dup(from_browser)
            os.dup2(read, 3)
            os.dup2(write, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={folder}", "--remote-debugging-pipe", "--window-size=1000,1400"]
        self.process = subprocess.Popen([CHROMIUM, *flags, "about:blank"], preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.n, self.events, self.rest, self.session = 0, [], b"", None
        target, = [t["targetId"] for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"][:1] or [self.call("Target.createTarget", url="about:blank")["targetId"]]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        os.close(self.to)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.from_)

    def receive(self):
        while b"\0" not in self.rest:
            piece = os.read(self.from_, 1 << 20)
            assert piece, "Chromium has ended"
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.n += 1
        message = {"id": self.n, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            got = self.receive()
            if got.get("id") == self.n:
                assert "error" not in got, (method, got)
                return got["result"]
            self.events.append(got)

    def open(self, url):
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def run(self, script):
        got = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def wait_for(self, script, seconds=30):
        for _ in range(10 * seconds):
            if got := self.run(script):
                return got
            time.sleep(0.1)
        raise AssertionError(script)

    def complaints(self):
        """Errors of scripts, what the policy or the network refused, and answers that are errors but for those of a form."""
        for event in self.events:
            method, what = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown" or method == "Network.loadingFailed" or method == "Log.entryAdded" and what["entry"]["level"] == "error" and what["entry"]["source"] != "network":
                yield what
            if method == "Network.responseReceived" and what["response"]["status"] >= 400 and what["type"] == "Document":
                yield what

    def picture(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})["data"]
        path.write_bytes(base64.b64decode(data))


class Page(Tests):
    def test_page(self):
        self.towers("vocabulary: {}")
        with Server(self, model=f"}}, {{name: shop, path: {self.folder / 'towers'}", idle_timeout=60) as s, Browser(self.folder / "browser") as b:
            b.open(f"http://127.0.0.1:{s.port}/")
            assert b.run("document.querySelectorAll('h2').length") == 2 and b.run("getComputedStyle(document.body).maxWidth") != "none", "styles were refused"
            body = json.dumps({"instances": self.instances[:2]})
            form = "document.forms[0]"
            b.run(f"{form}.elements.body.value = {json.dumps(body)}; {form}.querySelector('button').click()")
            shown = b.wait_for(f"{form}.querySelector('pre').textContent")
            first, text = shown.split("\n", 1)
            assert first.startswith("200, ") and json.loads(text)["predictions"] == s.predict({"instances": self.instances[:2]})[1]["predictions"], shown
            wrong = json.dumps({"instances": [{**self.instances[0], "age": "<img src=x onerror=alert(1)>"}]})
            b.run(f"{form}.elements.body.value = {json.dumps(wrong)}; {form}.requestSubmit()")
            assert "onerror" in b.wait_for(f"{form}.querySelector('pre').textContent.startsWith('400') && {form}.querySelector('pre').innerHTML") and b.run("document.images.length") == 0
            b.run("document.forms[1].querySelector('button').click()")  # with the example that stands there
            assert b.wait_for("document.forms[1].querySelector('pre').textContent").startswith("200, ")
            stop = threading.Event()

            def client():
                while not stop.wait(0.02):
                    s.predict({"instances": self.instances[:10]})

            thread = threading.Thread(target=client)
            thread.start()
            try:
                rates = [float(b.wait_for(f"Number(document.querySelector('[data-rate=\"{what} ads\"]').textContent) > 1 && document.querySelector('[data-rate=\"{what} ads\"]').textContent"))
                         for what in ("requests", "rows")]
            finally:
                stop.set()
                thread.join()
            assert rates[1] > 2 * rates[0], rates
            n_rows, = re.findall(r'^reckon_rows_total{model="ads"} (\d+)$', s.ask("/metrics")[1].decode(), re.M)
            b.wait_for(f"document.querySelector('[data-total=\"rows ads\"]').textContent == {n_rows} && document.querySelectorAll('rect').length > 0")
            if os.environ.get("RECKON_PICTURE"):
                b.picture(self.folder.parent / os.environ["RECKON_PICTURE"])
            assert not list(b.complaints()), list(b.complaints())


if __name__ == "__main__":
    main(Page)
