#!/usr/bin/env python3
"""The page at "/".

    check_page.py PROGRAM [TEST...]      77: this build cannot serve
"""
import csv
import html.parser
import json
import subprocess
import time

from serving import main, Server, Tests


class Page(html.parser.HTMLParser):
    """Refuses what is not closed, what is fetched from elsewhere, handlers and styles in attributes, and ids that are there twice."""
    EMPTY = {"meta", "link", "br"}
    LOOSE = {"td": "td th tr", "th": "td th tr", "tr": "tr"}  # whose ends may be left out

    def __init__(self, text):
        super().__init__()
        self.open, self.forms, self.rates, self.texts, self.nonces = [], [], [], {}, set()
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        values = dict(attributes)
        assert len(names) == len(set(names)) and not any(name.startswith("on") or name in ("style", "src", "action", "srcset") for name in names), (tag, attributes)
        assert tag in {"html", "head", "meta", "title", "link", "style", "body", "h1", "h2", "p", "section", "div", "table", "caption", "tr", "th", "td", "svg", "rect", "form", "label", "br", "textarea",
                       "button", "pre", "script"}, tag
        if tag == "link":
            assert values == {"rel": "icon", "href": "data:,"}
        if tag in ("script", "style"):
            self.nonces.add(values["nonce"])
        if tag == "form":
            self.forms.append((values["data-path"], len(self.texts.get("textarea", []))))
        if "data-rate" in values:
            self.rates.append(values["data-rate"])
        while self.open and self.open[-1] in ("td", "th") and tag in ("td", "th", "tr"):
            self.open.pop()
        if tag == "tr" and self.open[-1] == "tr":
            self.open.pop()
        if tag not in self.EMPTY:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag, attributes):
        assert tag == "rect", tag

    def handle_endtag(self, tag):
        while self.open and self.open[-1] != tag and self.open[-1] in ("td", "th", "tr"):
            self.open.pop()
        assert self.open and self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data):
        for tag in self.open[-1:]:
            self.texts[tag][-1] += data


class StatusPage(Tests):
    def test_page(self):
        """The page at "/": whole, escaped, fetches nothing from elsewhere, and its forms' examples are requests that are answered."""
        name = "a</textarea><script>alert('1&2\")</script>"
        folder = self.folder / "<b>&amp;"
        folder.mkdir()
        with open(folder / "d.csv", "w", newline="") as file:
            csv.writer(file).writerows([("click", name, "n"), *((i % 2, f"v{i % 5}", i) for i in range(60))])
        column = json.dumps(name)
        (folder / "run.yaml").write_text(f"data: {{train: d.csv, labels: [click], features: [{{name: f, column: {column}, hash: 20}}, {{name: n, dense: true}}]}}\n"
                                         "embedding: {dim: 2}\nmodel: {kind: dnn, deep: [4]}\ntrain: {batch_size: 20, epochs: 1, evaluate: {every_steps: 0}}\n")
        subprocess.run([self.program, "train", "-q", "--output", folder / "run", folder / "run.yaml"], check=True)
        with Server(self, run="<b>&amp;/run", model=f", version_policy: all}}, {{name: second, path: {self.folder / 'run'}") as s:
            status, text, headers = s.ask("/")
            page = Page(text.decode())
            policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
            nonce, = page.nonces
            assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8" and headers["X-Content-Type-Options"] == "nosniff"
            assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'" and policy["connect-src"] == "'self'"
            assert policy["script-src"] == policy["style-src"] == f"'nonce-{nonce}'" and "unsafe" not in str(policy) and len(nonce) == 32
            assert nonce not in s.ask("/")[1].decode(), "the nonce is the same again"
            assert len(page.texts["script"]) == 1 and page.texts["h2"] == ["ads", "second"] and page.rates == [f"{what} {m}" for m in ("ads", "second") for what in ("requests", "rows")]
            assert [path for path, _ in page.forms] == ["/v1/models/ads:predict", "/v1/models/second:predict"]
            for path, number in page.forms:
                example = page.texts["textarea"][number]
                assert path.count("second") or list(json.loads(example)["instances"][0]) == [name, "n"], example
                status, answer = s.json(path, example.encode())
                assert status == 200 and len(answer["predictions"]) == 1, answer
            assert s.predict({"instances": [{"n": 3}]})[0] == 400
            text = s.ask("/")[1].decode()
            cells = Page(text).texts["td"]
            assert "<tr><th>answered with 400<td class=\"n\">1" in text and "<tr><th>answered with 200<td class=\"n\">1" in text, text
            assert sum(int(cells[i]) for i in range(len(cells)) if cells[i - 1].endswith((" ms", " s", "more"))) == 3, cells  # of the latency histograms
            broken = folder / "run" / "checkpoints" / "step-000000099"
            broken.mkdir()
            for _ in range(30):
                time.sleep(0.1)
                text = s.ask("/")[1].decode()
                if "is not served" in text:
                    break
            Page(text)
            assert "Version 99 is not served" in text and "&#39;checkpoints/step-000000099&#39;" in text, text  # why, escaped
            assert "<b>" not in text and "&lt;b&gt;" not in text and "alert('1" not in text, text  # and without the folders above
        (self.folder / "tokens").write_text("first\n")
        with Server(self, more=f"auth: {{bearer_file: {self.folder}/tokens}}") as s:
            assert s.ask("/")[0] == 401


if __name__ == "__main__":
    main(StatusPage)
