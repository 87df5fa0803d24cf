#!/usr/bin/env python3
"""Connections: framing that proxies may read otherwise, slow clients and bodies that are too large are cut; tokens, TLS, a full queue; SIGTERM drains.

    check_connections.py PROGRAM [TEST...]      77: this build cannot serve
"""
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from serving import main, Server, Tests


class Connections(Tests):
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

    def test_too_large_to_parse(self):
        """A length that no integer holds is refused at once; nobody waits for such a body."""
        with Server(self) as s:
            for length in (2**31, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, 2**64, 10**40):
                begun = time.monotonic()
                got = s.raw(b"POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nx" % length)
                assert b" 413 " in got.split(b"\r\n")[0] and time.monotonic() - begun < 1, (length, got)

    def test_counted(self):
        """Each answer to a request for predictions is counted by its status, and what was refused elsewhere."""
        body, gzip = json.dumps({"instances": self.instances[:1]}).encode(), {"Content-Encoding": "gzip"}
        with Server(self) as s:
            for path, data, headers, wanted in ((":predict", body, {}, 200), (":predict", body, gzip, 415), (":predict", b"{", {}, 400), (":predict", b" " * 20001, {}, 413), (":predict", None, {}, 405),
                                                ("/versions/9", None, {}, 404), ("/metadata", None, {}, 200)):
                assert s.ask("/v1/models/ads" + path, data, headers)[0] == wanted, path
            assert s.ask("/v1/models/none:predict", body)[0] == 404 and s.ask("/x")[0] == 404 and s.ask("/metrics", b"{}")[0] == 405
            s.raw(b"POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n")
            with socket.create_connection(("127.0.0.1", s.port)) as c:
                c.sendall(b"POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
            for _ in range(100):  # that the client has gone is seen a little later
                counts = re.findall(r'^reckon_requests_total\{model="(\w*)",code="(\d+)"\} (\d+)$', s.ask("/metrics")[1].decode(), re.M)
                if ("ads", "499", "1") in counts:
                    break
                time.sleep(0.1)
            assert counts == [("ads", code, "1") for code in ("200", "400", "404", "405", "413", "415", "499")] + [("", "400", "1"), ("", "404", "2"), ("", "405", "1")], counts

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
            config = self.folder / "serve.yaml"
            config.write_text(config.read_text().replace("127.0.0.1:0", f"127.0.0.1:{s.port}"))
            for asked, code, words in ((config, 0, "ready"), (f"127.0.0.1:{s.port}", 1, "TLS")):
                health = subprocess.run([self.program, "health", asked], capture_output=True, text=True, timeout=20)
                assert health.returncode == code and words in health.stdout + health.stderr, health
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
            try:
                with socket.create_connection(("127.0.0.1", s.port), timeout=5) as c, old.wrap_socket(c):
                    raise AssertionError("TLS 1.1 was taken")
            except (ssl.SSLError, OSError):
                pass

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

    def test_taken_port(self):
        """Two servers never share a port; and a port is a number that there is."""
        with Server(self) as s:
            for listen, words in ((f"127.0.0.1:{s.port}", "could not listen"), ("127.0.0.1:65536", "no port"), ("127.0.0.1:", "no port"), ("127.0.0.1:-1", "no port"), ("127.0.0.1: 80", "no port"), ("127.0.0.1:+80", "no port"), ("127.0.0.1:http", "no port")):
                ended = subprocess.run([self.program, "serve", "--listen", listen, self.folder / "run"], capture_output=True, text=True, timeout=20)
                assert ended.returncode == 1 and words in ended.stderr, (listen, ended)

    def test_config(self):
        for text, words in (("models: []", "models"), ("models: [{name: a/b, path: run}]", "a/b"), ("models: [{name: a, path: nowhere}]", "nowhere"), ("model: []", "model"),
                            ("listen: somewhere\nmodels: [{name: a, path: run}]", "listen"), ("auth: {bearer_file: ''}\nmodels: [{name: a, path: run}]", "bearer_file"), ("tls: {key: x}\nmodels: [{name: a, path: run}]", "tls"),
                            ("models: [{name: a, path: run, version_policy: specific}]", "versions"), ("models: [{name: a, path: run}, {name: a, path: run}]", "twice")):
            (self.folder / "bad.yaml").write_text(text)
            ended = subprocess.run([self.program, "serve", self.folder / "bad.yaml"], capture_output=True, text=True, timeout=20)
            assert ended.returncode == 1 and words in ended.stderr, (text, ended)


if __name__ == "__main__":
    main(Connections)
