#!/usr/bin/env python3
"""A server among hostile requests (send_hostile): it lives, answers good requests between them as `reckon predict` does, leaks nothing, and does not grow.

    hostile.py PROGRAM SEND_HOSTILE N [SEED]      77: this build cannot serve
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

from serving import Server, Tests

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import http_requests

MOST_GROWTH = 8 << 20  # of resident memory after the first tenth of the requests: buffers that grow to the largest request that each has met; measured are 0.1 to 0.5 MB
LIMITS = {"header_timeout": 2, "request_timeout": 5, "idle_timeout": 3}


def bytes_tensor(texts):
    return b"".join(struct.pack("<I", len(t)) + t for t in (text.encode() for text in texts))


class Hostile(Tests):
    def good_requests(self):
        """Each form of request, and the rows that it asks for."""
        columns = {name: [row[name] for row in self.instances] for name in self.instances[0]}
        out = []
        for first, n in (0, 1), (3, 1), (10, 40), (60, 120):
            rows = self.instances[first:first + n]
            out.append((http_requests.predict("ads", None, rows), first))
            out.append((http_requests.predict("ads", {"city": rows[0]["city"]}, [{k: v for k, v in row.items() if k != "city"} for row in rows]), first if n == 1 else None))
            out.append((http_requests.post("/v1/models/ads:predict", json.dumps({"inputs": {name: c[first:first + n] for name, c in columns.items()}}).encode()), None))
            out.append((self.infer({name: c[first:first + n] for name, c in columns.items()}, n), None))
        return [(request, first) for request, first in out if len(request) < 19000]

    @staticmethod
    def infer(columns, n):
        """The Open Inference Protocol with binary tensors: texts, and numbers as FP64."""
        inputs, body = [], b""
        for name, values in columns.items():
            texts = name in ("user", "tags", "city")
            data = bytes_tensor(values) if texts else struct.pack(f"<{n}d", *values)
            inputs.append({"name": name, "shape": [n], "datatype": "BYTES" if texts else "FP64", "parameters": {"binary_data_size": len(data)}})
            body += data
        head = json.dumps({"inputs": inputs}).encode()
        return http_requests.post("/v2/models/ads/infer", head + body, [f"Inference-Header-Content-Length: {len(head)}"])

    def write_good(self, server, path):
        requests, answers = [], []
        with http_requests.connect(server.port) as connection:
            for request, first in self.good_requests():
                status, _, body = http_requests.ask(connection, request)
                assert status == 200, (request, body)
                if first is not None:
                    self.same(json.loads(body)["predictions"], first)
                requests.append(request)
                answers.append([body])
        http_requests.write(path, requests, answers)

    def send(self, sender, server, path, n, seed):
        done = subprocess.run([sender, str(server.port), path, str(n), str(seed)], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"seed {seed}: {done.stderr[-4000:]}\n{done.stdout}")
        return json.loads(done.stdout)

    def run(self, sender, n, seed):
        with Server(self, **LIMITS) as server:
            path = self.folder / "good"
            self.write_good(server, path)
            sent = [self.send(sender, server, path, n // 10, seed)]
            before = resident(server.process.pid)
            sent.append(self.send(sender, server, path, n - n // 10, seed + 1))
            after = resident(server.process.pid)
            assert server.json("/v2/health/live")[0] == 200
        kinds, statuses = ({key: sum(s[what].get(key, 0) for s in sent) for key in {**sent[0][what], **sent[1][what]}} for what in ("kinds", "statuses"))
        for kind, count in kinds.items():
            print(f"{count:9,}  {kind}")
            assert count, f"no request of kind: {kind}"
        print(f"{sum(s['hostile'] for s in sent):,} hostile requests and {sum(s['good'] for s in sent):,} good ones in {sum(s['seconds'] for s in sent):.0f} s; answers by status (0: none): "
              + ", ".join(f"{s} {c:,}" for s, c in sorted(statuses.items())))
        print(f"resident memory: {before >> 10} KiB after a tenth, {after >> 10} KiB in the end")
        sanitized = re.search(b"lib[at]san", Path(self.program).read_bytes())  # which keep freed memory for a while
        assert sanitized or after < before + MOST_GROWTH, "memory grows with hostile requests"


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    tests = Hostile(sys.argv[1])
    begun = time.monotonic()
    try:
        tests.run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    finally:
        shutil.rmtree(tests.folder)
    print(f"hostile: {time.monotonic() - begun:.0f} s")
