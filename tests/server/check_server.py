#!/usr/bin/env python3
"""`reckon serve` as its clients meet it, by sockets and Python's own HTTP client: answers are those of `reckon predict`, however requests are joined; what is wrong is
refused with its reason; framing that proxies may read otherwise, slow clients and bodies that are too large are cut; versions come and go under load; SIGTERM drains.

    check_server.py PROGRAM [TEST...]      77: this build cannot serve
"""
import base64
import csv
import html.parser
import http.client
import json
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

N_ROWS = 400
RUN = """
data:
  train: train.csv
  test: test.csv
  labels: [click, {name: rating, loss: mse}]
  features:
    - {name: user, hash: 100}
    - {name: tags, hash: 50, separator: " "}
    - {name: city, vocabulary: {}}
    - {name: age, dense: true, normalize: true}
    - {name: price, dense: true}
embedding: {dim: 4, initializer: {kind: normal, stddev: 0.5}}
model: {kind: shared_bottom, deep: [8], towers: [4]}
train: {batch_size: 64, epochs: %d, keep_best: false, evaluate: {every_steps: 0}, optimizer: {kind: adam, learning_rate: 0.02}}
"""
USERS, FILMS = 60, 80
TOWERS = """
data:
  train: pairs.csv
  test: pairs.csv
  features: [{name: user, vocabulary: {oov: %d}}, {name: item, column: film, %s}, {name: age, identity: 100}]
embedding: {dim: 8, features: [{name: history, table: item}]}
model: {kind: two_tower, deep: [8], retrieval: {user: user, item: item, history: true, negatives: 40, similarity: dot}}
train: {batch_size: 100, epochs: 2, optimizer: {kind: adam, learning_rate: 0.02}}
"""
SERVE = """
listen: 127.0.0.1:0
models: [{name: ads, path: %s%s}]
reload_interval: 0.2
drain_delay: 0.3
limits: {max_request_bytes: 20000, max_rows: %d, header_timeout: 0.7, request_timeout: 3, idle_timeout: 2}
%s
"""


def make_rows(folder, name, seed):
    chance = random.Random(seed)
    rows = [{"click": chance.randint(0, 1), "rating": round(chance.uniform(0, 5), 2), "user": f"u{chance.randint(0, 60)}",
             "tags": " ".join(f"t{chance.randint(0, 30)}" for _ in range(chance.randint(0, 4))), "city": chance.choice(["Rome", "Łódź", "\"quoted\", it", "東京", ""]),
             "age": chance.randint(18, 90), "price": float(f"{chance.lognormvariate(0, 2):.9g}")} for _ in range(N_ROWS)]
    with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class Server:
    def __init__(self, t, model="", more="", run=None, max_rows=200):
        config = t.folder / "serve.yaml"
        config.write_text(SERVE % (t.folder / run if run else t.serve_run, model, max_rows, more))
        self.process = subprocess.Popen([t.program, "serve", config], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        lines = []
        while not (found := re.search(r"port (\d+)", lines[-1] if lines else "")):
            lines.append(self.process.stderr.readline())
            if not lines[-1]:
                raise SystemExit(77 if "libmicrohttpd" in "".join(lines) else f"the server did not start: {lines}")
        self.port = int(found[1])

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server does not end") from None
        self.log = self.process.stderr.read()
        assert code == 0 and "Sanitizer" not in self.log, (code, self.log[-3000:])

    def ask(self, path, body=None, headers=None, method=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text, answer.headers

    def json(self, path, body=None, **how):
        status, text, _ = self.ask(path, body, **how)
        return status, json.loads(text)

    def predict(self, body, what=":predict"):
        return self.json(f"/v1/models/ads{what}", body)

    def raw(self, data, seconds=5):
        """All that comes back until the server closes; the connection must not be kept."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as s:
            s.sendall(data)
            got = b""
            while piece := s.recv(65536):
                got += piece
            return got


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
        assert tag in {"html", "head", "meta", "title", "link", "style", "body", "h1", "h2", "p", "section", "table", "caption", "tr", "th", "td", "svg", "rect", "form", "label", "br", "textarea",
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


class Tests:
    def __init__(self, program):
        self.program, self.folder = program, Path(tempfile.mkdtemp(prefix="server-"))
        self.serve_run = self.folder / "run"
        make_rows(self.folder, "train", 1)
        self.rows = make_rows(self.folder, "test", 2)
        self.train(1)
        self.instances = [{k: v for k, v in row.items() if k not in ("click", "rating")} for row in self.rows]

    def train(self, epochs, *more):
        (self.folder / "run.yaml").write_text(RUN % epochs)
        subprocess.run([self.program, "train", "-q", "--output", self.folder / "run", *more, self.folder / "run.yaml"], check=True)
        self.wanted = self.predictions()

    def predictions(self):
        """As `reckon predict` prints them: seven digits of each f32."""
        out = subprocess.run([self.program, "predict", "--format", "jsonl", self.folder / "run", self.folder / "test.csv"], check=True, capture_output=True, text=True).stdout
        return [(row["click"], row["rating"]) for row in map(json.loads, out.splitlines())]

    @staticmethod
    def printed(pairs):
        return [tuple(float(f"{single(p):.7g}") for p in pair) for pair in pairs]

    def same(self, answer, first=0):
        got = self.printed([(p["click"], p["rating"]) for p in answer])
        assert got == self.wanted[first:first + len(got)], (got[:3], self.wanted[first:first + 3])

    # --- each test -----------------------------------------------------------------------------------------------------------------

    def test_predictions(self):
        with Server(self) as s:
            status, answer = s.predict({"signature_name": "serving_default", "instances": self.instances[:200]})
            assert status == 200 and len(answer["predictions"]) == 200
            self.same(answer["predictions"])
            columns = {k: [row[k] for row in self.instances[:200]] for k in self.instances[0]}
            status, by_column = s.predict({"inputs": columns})
            assert status == 200 and by_column["outputs"] == {t: [p[t] for p in answer["predictions"]] for t in ("click", "rating")}
            for n in (1, 2, 7, 63):
                assert s.predict({"instances": self.instances[:n]})[1]["predictions"] == answer["predictions"][:n], n
            lists = [{**row, "tags": row["tags"].split(), "city": {"b64": base64.b64encode(row["city"].encode()).decode()}} for row in self.instances[:50]]
            assert s.predict({"instances": lists})[1]["predictions"] == answer["predictions"][:50]
            context, item = {k: self.instances[3][k] for k in ("user", "city", "age")}, {k: self.instances[3][k] for k in ("tags", "price")}
            for body in ({"context": context, "instances": [item] * 3}, {"instances": [item] * 3, "context": context}):
                assert s.predict(body)[1]["predictions"] == [answer["predictions"][3]] * 3
            some = {"context": {**context, "city": "Oslo"}, "instances": [item, self.instances[3], {**item, "city": context["city"]}, {**item, "city": None}]}
            each = {"instances": [{**item, **context, "city": "Oslo"}, self.instances[3], self.instances[3], {**item, **context, "city": None}]}
            assert s.predict(some) == s.predict(each)  # what a row has itself goes first, in this row alone
            p = answer["predictions"][0]
            assert s.predict({"examples": self.instances[:1]}, ":classify")[1]["result"][0][1] == ["1", p["click"]]
            assert s.predict({"examples": self.instances[:1], "signature_name": "rating"}, ":regress")[1] == {"result": [p["rating"]]}
            assert s.predict({"instances": []})[1] == {"predictions": []}
            missing = s.predict({"instances": [{**self.instances[0], "city": None, "price": None}, {**self.instances[0], "city": "", "price": ""}]})[1]["predictions"]
            assert missing[0] == missing[1]

    def test_infer(self):
        with Server(self) as s:
            rows = self.instances[:20]
            expected = s.predict({"instances": rows})[1]["predictions"]
            tensors = [{"name": k, "shape": [20], "datatype": {"age": "INT64", "price": "FP64"}.get(k, "BYTES"), "data": [row[k] for row in rows]} for k in rows[0]]
            status, answer = s.json("/v2/models/ads/infer", {"id": "a\"b", "inputs": tensors})
            assert status == 200 and answer["id"] == "a\"b" and answer["model_name"] == "ads", answer
            outputs = {o["name"]: o["data"] for o in answer["outputs"]}
            assert outputs == {t: [p[t] for p in expected] for t in ("click", "rating")}
            head, tail = {"inputs": [], "parameters": {"binary_data_output": True}}, b""
            for tensor in tensors:
                code = {"INT64": "q", "FP64": "d"}.get(tensor["datatype"])
                data = struct.pack(f"<20{code}", *tensor["data"]) if code else b"".join(struct.pack("<I", len(x.encode())) + x.encode() for x in tensor["data"])
                head["inputs"].append({k: tensor[k] for k in ("name", "shape", "datatype")} | {"parameters": {"binary_data_size": len(data)}})
                tail += data
            text = json.dumps(head).encode()
            status, body, headers = s.ask("/v2/models/ads/versions/7/infer", text + tail, {"Inference-Header-Content-Length": str(len(text))})
            n = int(headers["Inference-Header-Content-Length"])
            binary = struct.unpack("<40f", body[n:])
            assert status == 200 and list(binary[:20]) == [single(p["click"]) for p in expected] and list(binary[20:]) == [single(p["rating"]) for p in expected]
            for asked in ((("rating", True),), (("rating", False),), (("rating", None), ("click", False))):  # in this order, with or without bytes
                outputs = [{"name": name} | ({} if binary is None else {"parameters": {"binary_data": binary}}) for name, binary in asked]
                status, body, headers = s.ask("/v2/models/ads/infer", {"inputs": tensors, "outputs": outputs, "parameters": {"binary_data_output": True}})
                n = int(headers["Inference-Header-Content-Length"] or len(body))
                got, binary = json.loads(body[:n])["outputs"], [o for o in asked if o[1] is not False]
                assert status == 200 and [o["name"] for o in got] == [name for name, _ in asked] and all(("data" in o) == (b is False) for o, (_, b) in zip(got, asked)), got
                assert body[n:] == b"".join(struct.pack("<20f", *(p[name] for p in expected)) for name, _ in binary)
            for outputs in ([{"name": "age"}], [{}], [{"name": "click"}, {"name": "click"}]):
                assert s.json("/v2/models/ads/infer", {"inputs": tensors, "outputs": outputs})[0] == 400, outputs
            for cut in (1, 30, len(tail)):
                assert s.ask("/v2/models/ads/infer", text + tail[:-cut], {"Inference-Header-Content-Length": str(len(text))})[0] == 400
            assert s.ask("/v2/models/ads/infer", text + tail + b"x", {"Inference-Header-Content-Length": str(len(text))})[0] == 400
            assert s.ask("/v2/models/ads/infer", text, {"Inference-Header-Content-Length": str(len(text) + 1)})[0] == 400
            wrong = [dict(tensors[0], shape=[19]), dict(tensors[0], shape=[2, 2, 5]), dict(tensors[0], datatype="FLOAT"), dict(tensors[0], shape=[2**31])]
            for tensor in wrong:
                assert s.json("/v2/models/ads/infer", {"inputs": [tensor, *tensors[1:]]})[0] == 400, tensor

    def test_joined(self):
        """Requests of many clients at once, of which some are wrong, get what they get alone."""
        with Server(self, more="batching: {batch_timeout_micros: 3000, num_batch_threads: 2}") as s:
            alone = s.predict({"instances": self.instances[:200]})[1]["predictions"]
            failures = []

            def client(number):
                chance = random.Random(number)
                for _ in range(30):
                    first = chance.randrange(150)
                    n = chance.randrange(1, 20)
                    rows = self.instances[first:first + n]
                    if chance.random() < 0.2:
                        got = s.predict({"instances": [*rows, {**rows[0], "age": "old"}]})
                        if got[0] != 400 or f"row {n}" not in got[1]["error"] or "age" not in got[1]["error"]:
                            failures.append(got)
                    else:
                        got = s.predict({"instances": rows})
                        if got != (200, {"predictions": alone[first:first + n]}):
                            failures.append(got)

            threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            assert not failures, failures[0]
            metrics = s.ask("/metrics")[1].decode()
            batches, requests = (int(re.search(rf"^{name}(?:{{.*code=\"200\"}})? (\d+)$", metrics, re.M)[1]) for name in ("reckon_executions_total", "reckon_requests_total"))
            assert batches < requests, "no requests were joined"

    def test_other_model_is_not_held_up(self):
        """A worker that waits for more of one model is not the only one that hears of a request for another."""
        with Server(self, model=f"}}, {{name: other, path: {self.serve_run}", more="batching: {batch_timeout_micros: 1000000, num_batch_threads: 2}") as s:
            def ask(name):
                begun = time.monotonic()
                assert s.json(f"/v1/models/{name}:predict", {"instances": self.instances[:2]})[0] == 200
                took.append(time.monotonic() - begun)

            took, threads = [], []
            for name, pause in (("other", 0.5), ("ads", 0.65), ("other", 0)):  # the third comes while one worker waits, and one has nothing to do
                threads.append(threading.Thread(target=ask, args=(name,)))
                threads[-1].start()
                time.sleep(pause)
            [t.join() for t in threads]
            assert max(took) < 1.2, took

    def test_refused(self):
        row = self.instances[0]
        body = json.dumps({"instances": [row]}).encode()
        with Server(self) as s:
            wrong = {b"": "object", b"{": "quotes", b"[]": "object", b"nul": "", b'{"instances": [1]}': "object", b'{"instances": {}}': "array", b'{"rows": []}': "not known",
                     b'{"instances": [], "instances": []}': "twice", body + b"x": "behind", b'{"instances": [{"age": NaN}]}': "", b'{"instances": [{"age": 01}]}': "",
                     b'{"instances": [{"age": 1, "age": 2}]}': "twice", b'{"instances": [{"city": "\\ud800"}]}': "surrogate", b'{"instances": [{"city": "\xff"}]}': "UTF-8",
                     b'{"instances": [{"city": "a\nb"}]}': "control", b'{"instances": [{"city": {"b64": "a"}}]}': "b64", b'{"instances": [{"tags": [["x"]]}]}': "list",
                     b'{"instances": [{"age": 3}]}': "'user' is missing", b"[" * 100: "object", b'{"x": ' + b"[" * 100: "not known"}
            for text, words in wrong.items():
                status, answer, _ = s.ask("/v1/models/ads:predict", text)
                assert status == 400 and words in json.loads(answer)["error"], (text, status, answer)
            assert s.predict({"instances": [{**row, "tags": ["a"] * 3, "x": [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}]})[0] == 400  # too deep
            assert s.predict({"instances": [{**row, "age": "old"}]}) == (400, {"error": s.predict({"instances": [{**row, "age": "old"}]})[1]["error"]})
            assert s.predict({"instances": [row] * 201})[0] == 413
            assert s.ask("/v1/models/ads:predict", b" " * 20001)[0] == 413
            assert s.predict({"examples": [row], "signature_name": "rating"}, ":classify")[0] == 400
            for path in ("/x", "/v1/models/none:predict", "/v1/models/ads/versions/5:predict", "/v1/models/ads/versions/x:predict", "/v1/models/../ads:predict", "/v1/models/ads/labels/x:predict",
                         "/v2/models/ads%2f..:predict", "/v1/models/ads:train", "/v2/models/ads/infer/", "/v1/models/" + "a" * 3000):
                assert s.ask(path, body)[0] in (404, 414), path
            assert s.ask("/metrics%00/x")[0] == s.ask("/v1/models/ads:predict%00", body)[0] == 400
            assert s.ask("/v1/models/ads:predict")[0] == 405 and s.ask("/metrics", b"{}")[0] == s.ask("/", b"{}")[0] == 405
            assert s.ask("/v1/models/ads:predict", body, {"Content-Encoding": "gzip"})[0] == 415
            assert s.predict({"instances": [row]})[0] == 200

    def test_framing(self):
        body = json.dumps({"instances": self.instances[:1]}).encode()
        line, n = b"POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\n", str(len(body)).encode()
        smuggled = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        with Server(self) as s:
            shapes = [b"Content-Length: " + n + b"\r\nContent-Length: " + n + b"\r\n\r\n" + body, b"Content-Length: " + n + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
                      b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + chunked, b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked, b"Transfer-Encoding : chunked\r\n\r\n" + chunked,
                      b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, b"Transfer-Encoding: xchunked\r\n\r\n" + chunked, b"Content-Length: +" + n + b"\r\n\r\n" + body,
                      b"Content-Length: -1\r\n\r\n" + body, b"Content-Length: 0x10\r\n\r\n" + body, b"Content-Length: 99999999999999999999\r\n\r\n" + body, b"Content Length: " + n + b"\r\n\r\n" + body,
                      b"Content-Length: " + n + b", " + n + b"\r\n\r\n" + body]
            for shape in shapes:
                got = s.raw(line + shape + smuggled)
                assert not got or re.match(rb"HTTP/1\.[01] (400|413)", got), (shape, got)
                assert b" 200 " not in got and b"reckon_requests" not in got, (shape, got)  # libmicrohttpd's own refusals have their head twice
            assert re.match(rb"HTTP/1\.[01] 400", s.raw(b"GET /v2 HTTP/1.1\r\n\r\n"))  # no Host
            got = s.raw(line + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunked)
            assert b" 200 " in got.split(b"\r\n")[0] and b"predictions" in got, got
            big = b"%x\r\n%s\r\n" % (30000, b" " * 30000)
            assert b" 413 " in s.raw(line + b"Transfer-Encoding: chunked\r\n\r\n" + big + b"0\r\n\r\n").split(b"\r\n")[0]

    def test_slow(self):
        """A byte now and then does not keep a connection."""
        with Server(self) as s:
            head = b"POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
            for sent, limit in ((b"", 3.5), (b"GET /v2 HT", 3.5), (b"GET /v2 HTTP/1.1\r\nHost: x\r\nA: ", 2.5), (head, 6)):
                begun = time.monotonic()
                with socket.create_connection(("127.0.0.1", s.port), timeout=10) as c:
                    c.sendall(sent)
                    c.settimeout(0.2)
                    while time.monotonic() - begun < 10:
                        try:
                            if sent:
                                c.sendall(b"x")
                            if not c.recv(1000):
                                break
                        except TimeoutError:
                            continue
                        except OSError:
                            break
                assert time.monotonic() - begun < limit, (sent, time.monotonic() - begun)
            assert s.ask("/v2/health/live")[0] == 200

    def test_bearer(self):
        (self.folder / "tokens").write_text("first\nsecond\n")
        with Server(self, more=f"auth: {{bearer_file: {self.folder}/tokens}}") as s:
            body = {"instances": self.instances[:1]}
            for token, status in ((None, 401), ("Bearer ", 401), ("Bearer firs", 401), ("Bearer first\nsecond", 401), ("Basic first", 401), ("Bearer second", 200)):
                if token and "\n" in token:
                    continue
                assert s.ask("/v1/models/ads:predict", body, {"Authorization": token} if token else {})[0] == status, token
            assert s.ask("/metrics")[0] == 401 and s.ask("/v2/health/ready")[0] == 200

    def test_tls(self):
        import ssl
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                               self.folder / "key.pem", "-out", self.folder / "cert.pem"], capture_output=True) if shutil.which("openssl") else None
        if not made or made.returncode:
            return print("test_tls: skipped, there is no openssl")
        with Server(self, more=f"tls: {{certificate: {self.folder}/cert.pem, key: {self.folder}/key.pem}}") as s:
            context = ssl.create_default_context(cafile=self.folder / "cert.pem")
            connection = http.client.HTTPSConnection("127.0.0.1", s.port, context=context, timeout=10)
            connection.request("POST", "/v1/models/ads:predict", json.dumps({"instances": self.instances[:5]}))
            self.same(json.load(connection.getresponse())["predictions"])
            connection.close()
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
            try:
                with socket.create_connection(("127.0.0.1", s.port), timeout=5) as c, old.wrap_socket(c):
                    raise AssertionError("TLS 1.1 was taken")
            except (ssl.SSLError, OSError):
                pass

    def test_versions(self):
        """A run that goes on training: each answer is wholly of one version, none fails; a version that is damaged does not reach requests."""
        before = self.wanted
        with Server(self) as s:
            stop, failures, seen = threading.Event(), [], set()

            def client():
                while not stop.is_set():
                    status, answer = s.predict({"instances": self.instances[:20]})
                    got = tuple(self.printed([(p["click"], p["rating"]) for p in answer["predictions"]])) if status == 200 else status
                    seen.add(got)

            threads = [threading.Thread(target=client) for _ in range(3)]
            [t.start() for t in threads]
            time.sleep(0.3)
            self.train(2, "--resume")
            after = self.wanted
            for _ in range(100):
                if s.json("/v1/models/ads")[1]["model_version_status"][0]["version"] == "14":
                    break
                time.sleep(0.1)
            time.sleep(0.3)
            stop.set()
            [t.join() for t in threads]
            assert seen == {tuple(before[:20]), tuple(after[:20])}, len(seen)
            steps = sorted((self.folder / "run" / "checkpoints").iterdir())
            broken = steps[-1].with_name("step-000000099")
            shutil.copytree(steps[-1], broken)
            for file in broken.iterdir():
                if file.is_file():
                    file.write_bytes(file.read_bytes()[:-3])
            time.sleep(0.8)
            self.same(s.predict({"instances": self.instances[:20]})[1]["predictions"])
            shutil.rmtree(broken)
        with Server(self, model=", version_policy: all, version_labels: [{name: old, version: 7}]") as s:
            versions = [v["version"] for v in s.json("/v1/models/ads")[1]["model_version_status"]]
            assert versions == ["14", "7"], versions
            old = s.json("/v1/models/ads/labels/old:predict", {"instances": self.instances[:20]})[1]["predictions"]
            assert self.printed([(p["click"], p["rating"]) for p in old]) == before[:20]
            assert old == s.json("/v1/models/ads/versions/7:predict", {"instances": self.instances[:20]})[1]["predictions"]
            self.same(s.predict({"instances": self.instances[:20]})[1]["predictions"])
        shutil.rmtree(self.folder / "run")
        self.train(1)

    def test_versions_of_a_folder(self):
        """A version that stands half copied is served when all of it is there; what failed is forgotten when it is gone."""
        folder = self.folder / "models"
        shutil.copytree(self.folder / "run", folder / "1")
        self.serve_run, run = folder, self.folder / "run"
        with Server(self, model=", num_versions: 2") as s:
            def wait_for(*wanted):
                for _ in range(100):
                    got = [(v["version"], v["state"]) for v in s.json("/v1/models/ads")[1]["model_version_status"]]
                    if got == list(wanted):
                        return
                    time.sleep(0.1)
                raise AssertionError((got, wanted))

            (folder / "2").mkdir()
            wait_for(("1", "AVAILABLE"), ("2", "END"))
            shutil.copytree(run, folder / "2", dirs_exist_ok=True)
            wait_for(("2", "AVAILABLE"), ("1", "AVAILABLE"))
            (folder / "2").rename(folder / "02")  # the same number from elsewhere stands in its place
            time.sleep(0.6)
            wait_for(("2", "AVAILABLE"), ("1", "AVAILABLE"))
            (folder / "3").mkdir()
            wait_for(("2", "AVAILABLE"), ("3", "END"))
            (folder / "3").rmdir()
            wait_for(("2", "AVAILABLE"), ("1", "AVAILABLE"))
            self.same(s.predict({"instances": self.instances[:20]})[1]["predictions"])
        assert s.log.count("version 2 is not served") == s.log.count("version 3 is not served") == 1, s.log
        shutil.rmtree(folder)
        self.serve_run = run

    def test_drain(self):
        with Server(self) as s:
            assert s.json("/v2/health/ready") == (200, {"ready": True})
            s.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            assert s.json("/v2/health/ready") == (503, {"ready": False}) and s.ask("/v2/health/live")[0] == 200
            self.same(s.predict({"instances": self.instances[:3]})[1]["predictions"])
            s.process.wait(10)

    def test_kept_connections_at_the_end(self):
        """Connections that were kept, and bring requests while all else is freed."""
        body = json.dumps({"instances": self.instances[:2]}).encode()
        asked = b"POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        with Server(self, more="drain_timeout: 0") as s:
            kept = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(400)]
            time.sleep(0.1)
            s.process.send_signal(signal.SIGTERM)
            time.sleep(0.25)  # most of drain_delay
            for c in kept:
                try:
                    c.sendall(asked if c.fileno() % 2 else b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                    time.sleep(0.0002)
                except OSError:
                    pass  # it has ended by now
            s.process.wait(10)
            [c.close() for c in kept]

    def test_busy(self):
        """More requests than may wait: 429, with a time to come again; none is lost."""
        with Server(self, more="batching: {max_enqueued_requests: 1, num_batch_threads: 1}") as s:
            codes = []

            def client():
                for _ in range(40):
                    status, _, headers = s.ask("/v1/models/ads:predict", {"instances": self.instances[:100]})
                    codes.append((status, headers["Retry-After"]))

            threads = [threading.Thread(target=client) for _ in range(8)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            assert set(codes) <= {(200, None), (429, "1")} and len(codes) == 320 and codes.count((200, None)) > 40, set(codes)

    def towers(self, item, oov=0):
        """A two_tower; its users, as instances, and what `reckon recommend` finds for them."""
        chance = random.Random(7)
        self.users = [{"user": f"u{user}", "age": 20 + user % 50} for user in range(USERS)]
        with open(self.folder / "pairs.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["user", "film", "age"])
            for row in self.users:
                for film in {chance.randrange(FILMS) for _ in range(12)} | {int(row["user"][1:])}:
                    writer.writerow([row["user"], f'film, "{film}"', row["age"]])
        shutil.rmtree(self.folder / "towers", ignore_errors=True)
        (self.folder / "towers.yaml").write_text(TOWERS % (oov, item))
        subprocess.run([self.program, "train", "-q", "--output", self.folder / "towers", self.folder / "towers.yaml"], check=True)

    def recommended(self, k, *more):
        out = subprocess.run([self.program, "recommend", "--format", "jsonl", "-k", str(k), *more, self.folder / "towers"], check=True, capture_output=True, text=True).stdout
        return {row["user"]: (row["items"], row["scores"]) for row in map(json.loads, out.splitlines())}

    def test_retrieve(self):
        """The items, in their order, and the scores of `reckon recommend`, which looks at all users at once."""
        for item in ("vocabulary: {}", "hash: 500"):
            self.towers(item)
            found = self.recommended(10)
            with Server(self, run="towers", max_rows=600) as s:
                def ask(body, status=200):
                    got = s.json("/v1/models/ads:retrieve", body)
                    assert got[0] == status, got
                    return [(r["items"], r["scores"]) for r in got[1]["result"]] if status == 200 else got[1]["error"]

                def same(got, wanted):
                    assert got[0] == wanted[0] and [*map(single, got[1])] == [*map(single, wanted[1])], (got, wanted)

                many = ask({"instances": self.users, "k": 10})
                for user, got in zip(self.users, many):
                    same(got, found[user["user"]])
                    assert ask({"context": user, "k": 10}) == [got]
                assert ask({"context": {"age": 30}, "instances": [{"user": "u10"}], "k": 10}) == [many[10]]
                known = self.recommended(10, "--with-known")
                for user, got in zip(self.users, ask({"instances": self.users, "k": 10, "with_known": True})):
                    same(got, known[user["user"]])
                every = self.recommended(FILMS)["u3"]
                (all_items, all_scores), = ask({"context": self.users[3], "k": 1000})
                same((all_items, all_scores), every)
                assert len(ask({"context": self.users[3]})[0][0]) == len(all_items) < FILMS
                without = ask({"context": self.users[3], "k": 10, "exclude": [*all_items[:4], all_items[6], "film, \"none\"", None, 7]})[0][0]
                assert without == [*all_items[4:6], *all_items[7:15]], without
                alone = {"filter": [*all_items[9:5:-1], all_items[2], "film, \"none\""], "context": self.users[3], "k": 10}
                assert ask(alone) == [([all_items[2], *all_items[6:10]], [all_scores[2], *all_scores[6:10]])]
                assert ask({**alone, "exclude": [all_items[7]]})[0][0] == [all_items[2], all_items[6], *all_items[8:10]]
                assert ask({"instances": self.users[:3], "filter": []}) == [([], [])] * 3 and ask({"instances": []}) == []
                stranger = ask({"instances": [{"user": "nobody", "age": 30}, self.users[1], {"user": None, "age": 3}], "k": 10})
                assert stranger == [([], []), many[1], ([], [])], stranger
                for body, words in (({"k": 3}, "context"), ({"context": self.users[0], "k": 0}, "k"), ({"context": {"user": "u1"}}, "age"), ({"context": self.users[0], "filter": {}}, "list"),
                                    ({"context": self.users[0], "exclude": [["a"]]}, "list"), ({"context": {"user": "u1", "age": "old"}}, "age"), ({"inputs": {}}, "not known"),
                                    ({"context": self.users[0], "exclude": [], "exclude ": []}, "not known")):
                    assert words in ask(body, 400), body
                assert "in all" in ask({"instances": self.users, "k": 11}, 413)
                for what in (":predict", ":regress"):
                    status, answer = s.predict({"instances": self.users[:1]}, what)
                    assert status == 400 and ":retrieve" in answer["error"], answer
                assert s.json("/v2/models/ads/infer", {"inputs": []})[0] == 400
                inputs = s.json("/v1/models/ads/metadata")[1]["metadata"]["signature_def"]["signature_def"]["serving_default"]
                assert sorted(inputs["inputs"]) == ["age", "user"] and sorted(inputs["outputs"]) == ["items", "scores"], inputs
                failures = []

                def client(number):
                    for user in range(number, USERS, 4):
                        if ask({"context": self.users[user], "k": 10}) != [many[user]]:
                            failures.append(user)

                threads = [threading.Thread(target=client, args=(i,)) for i in range(4)]
                [t.start() for t in threads]
                [t.join() for t in threads]
                assert not failures, failures
            (self.folder / "items.txt").write_text("\n".join(all_items[:9]))
            (self.folder / "without.txt").write_text("\n".join(all_items[2:5]))
            files = self.recommended(20, "--items", self.folder / "items.txt", "--without-items", self.folder / "without.txt", "--with-known")
            with Server(self, run="towers", model=", items: items.txt, without_items: without.txt, with_known: true") as s:
                same(ask({"context": self.users[3], "k": 20})[0], files["u3"])
        with Server(self) as s:
            assert "two_tower" in s.predict({"context": self.instances[0]}, ":retrieve")[1]["error"]

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
            assert "Version 99 is not served" in text and "&lt;b&gt;&amp;amp;" in text and "<b>" not in text and "alert('1" not in text, text
        (self.folder / "tokens").write_text("first\n")
        with Server(self, more=f"auth: {{bearer_file: {self.folder}/tokens}}") as s:
            assert s.ask("/")[0] == 401

    def test_unknown(self):
        """Values that no vocabulary has are counted by feature, once a row, whether requests are joined or not."""
        def counted(s):
            return {feature: int(n) for feature, n in re.findall(r'^reckon_unknown_ids_total\{model="ads",version="\d+",feature="((?:[^"\\]|\\.)*)"\} (\d+)$', s.ask("/metrics")[1].decode(), re.M)}

        with Server(self) as s:
            s.predict({"instances": self.instances[:50]})
            assert counted(s) == {}, counted(s)
            rows = [{**row, "city": f"Atlantis {i}", "user": f"new{i}"} for i, row in enumerate(self.instances[:3])]
            assert s.predict({"instances": rows})[0] == 200 and counted(s) == {"city": 3}, counted(s)
            assert s.predict({"instances": [*rows, {**rows[0], "age": "old"}]})[0] == 400 and counted(s) == {"city": 3}
            s.predict({"instances": rows[:1] + self.instances[:5]})
            assert counted(s) == {"city": 4}
        (self.folder / "odd.yaml").write_text((RUN % 1).replace("{name: city,", "{name: 'c\"i\\ty', column: city,"))
        subprocess.run([self.program, "train", "-q", "--output", self.folder / "odd", self.folder / "odd.yaml"], check=True)
        with Server(self, run="odd") as s:
            s.predict({"instances": rows})
            assert counted(s) == {'c\\"i\\\\ty': 3}, counted(s)
        self.towers("vocabulary: {}", oov=1)
        with Server(self, run="towers") as s:
            assert s.json("/v1/models/ads:retrieve", {"instances": self.users[:3], "k": 3})[0] == 200 and counted(s) == {}, counted(s)
            answer = s.json("/v1/models/ads:retrieve", {"instances": [{"user": "nobody", "age": 30}, self.users[1]], "k": 3})[1]["result"]
            assert [len(user["items"]) for user in answer] == [3, 3] and counted(s) == {"user": 1}, (answer, counted(s))

    def test_serve_once(self):
        """What ./quickstart ends with: one answer over HTTP, and no server is left."""
        def once(run, row):
            return subprocess.run([Path(__file__).parents[2] / "scripts" / "serve_once", self.program, run, json.dumps({"instances": [row]})], capture_output=True, text=True, timeout=60)

        ended = once(self.folder / "run", self.instances[0])
        assert ended.returncode == 0, ended
        self.same(json.loads(ended.stdout.splitlines()[-1])["predictions"])
        port = int(re.search(r"localhost:(\d+)", ended.stdout)[1])
        with socket.socket() as s:
            assert s.connect_ex(("127.0.0.1", port)) != 0, "the server still runs"
        assert once(self.folder / "nowhere", self.instances[0]).returncode == 1
        assert once(self.folder / "run", {"age": 3}).returncode == 1

    def test_config(self):
        for text, words in (("models: []", "models"), ("models: [{name: a/b, path: run}]", "a/b"), ("models: [{name: a, path: nowhere}]", "nowhere"), ("model: []", "model"),
                            ("listen: somewhere\nmodels: [{name: a, path: run}]", "listen"), ("auth: {bearer_file: ''}\nmodels: [{name: a, path: run}]", "bearer_file"), ("tls: {key: x}\nmodels: [{name: a, path: run}]", "tls"),
                            ("models: [{name: a, path: run, version_policy: specific}]", "versions"), ("models: [{name: a, path: run}, {name: a, path: run}]", "twice")):
            (self.folder / "bad.yaml").write_text(text)
            ended = subprocess.run([self.program, "serve", self.folder / "bad.yaml"], capture_output=True, text=True, timeout=20)
            assert ended.returncode == 1 and words in ended.stderr, (text, ended)


def main():
    tests = Tests(sys.argv[1])
    try:
        for name in sys.argv[2:] or [name for name in dir(tests) if name.startswith("test_")]:
            begun = time.monotonic()
            getattr(tests, name)()
            print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)
    finally:
        shutil.rmtree(tests.folder)


if __name__ == "__main__":
    main()
