#!/usr/bin/env python3
"""A new version and its rollback every second, for RK_RELOAD_SECONDS (600), while requests come at half of what the server sustains: none fails, each answer is wholly
that of one version, and memory does not grow. Latencies with and without reloads are printed, and not judged: other work on the machine would decide.

    reload_under_load.py PROGRAM BENCH_HTTP_LOAD      77: this build cannot serve
"""
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from serving import Server, Tests

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import http_requests

ROWS, N_REQUESTS, CONNECTIONS = 40, 10, 64
HALF_SECOND, WARM_RELOADS = 0.5, 5
MOST_GROWTH = 16 << 20  # of resident memory after the first reloads: what the allocator keeps varies by less than 1 MB, and a version that is never freed adds 0.6 MB a second


class Reload(Tests):
    def __init__(self, program, load):
        super().__init__(program)
        self.load_program, self.requests = load, self.folder / "requests"
        self.versions, self.spare = self.folder / "versions", self.folder / "spare"
        for folder in self.versions, self.spare:
            folder.mkdir()

    def make_versions(self):
        """Versions 1 and 2, and how each answers. Requests for the newest version stand beside those for version 1, so that a worker has both before it."""
        bodies = [http_requests.predict("ads", None, self.instances[i * ROWS:][:ROWS]) for i in range(N_REQUESTS)]
        of_first = [http_requests.predict("ads/versions/1", None, self.instances[i * ROWS:][:ROWS]) for i in range(N_REQUESTS)]
        shutil.copytree(self.folder / "run", self.versions / "1")
        first = self.answers(bodies)
        shutil.rmtree(self.folder / "run" / "checkpoints")
        self.train(3, "--overwrite")
        shutil.copytree(self.folder / "run", self.spare / "2")
        second = self.answers(bodies)
        assert all(a != b for a, b in zip(first, second))
        requests = [request for pair in zip(bodies, of_first) for request in pair]
        accepted = [answers for a, b in zip(first, second) for answers in ([a, b], [a])]
        http_requests.write(self.requests, requests, accepted)

    def answers(self, bodies):
        """Of a server of the run alone, held against `reckon predict`."""
        got = []
        with Server(self) as server:
            for i, body in enumerate(bodies):
                with http_requests.connect(server.port) as s:
                    status, _, text = http_requests.ask(s, body)
                assert status == 200, text
                self.same(json.loads(text)["predictions"], i * ROWS)
                got.append(text)
        return got

    def send(self, server, **options):
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        done = subprocess.run([self.load_program, str(server.port), self.requests, "--connections", str(CONNECTIONS), *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["failed"] == 0, f"{found['failed']} of {found['requests']} requests failed, the first: {found['why']}"
        return found

    def change_versions(self, server, stop):
        """Version 2 comes, and goes again; counts how often the server had followed half a second later."""
        there = False
        while not stop.wait(HALF_SECOND) or there:
            self.n_followed += server.json("/v1/models/ads")[1]["model_version_status"][0]["version"] == ("2" if there else "1")
            if there:
                (self.versions / "2").rename(self.spare / "2")
            else:
                (self.spare / "2").rename(self.versions / "2")
            there = not there
            self.memory.append(resident(server.process.pid))

    def run(self, seconds):
        self.memory, self.n_followed = [], 0
        self.make_versions()
        with Server(self, ", num_versions: 2", run="versions", idle_timeout=3600) as server:
            closed = self.send(server, seconds=2)
            rate = closed["requests"] / closed["seconds"] / 2
            quiet = self.send(server, seconds=min(10, seconds), rate=rate)
            stop = threading.Event()
            changing = threading.Thread(target=self.change_versions, args=(server, stop))
            changing.start()
            try:
                busy = self.send(server, seconds=seconds, rate=rate)
            finally:
                stop.set()
                changing.join()
        print(f"{busy['requests']} requests at {rate:.0f} a second, {busy['answers'][0]} answered by version 1, {busy['answers'][1]} by version 2; {self.n_followed} of {len(self.memory)} changes were followed within half a second")
        for name in "p50", "p99", "p999", "max":
            print(f"{name}: {quiet[name] * 1e3:.2f} ms without reloads, {busy[name] * 1e3:.2f} ms with, {busy[name] / quiet[name]:.2f} times")
        assert busy["answers"][1] > busy["requests"] / 10, "versions did not change under the requests"
        assert self.n_followed > len(self.memory) / 2, "most changes of versions were not followed"
        first, last = max(self.memory[:2 * WARM_RELOADS]), max(self.memory[-2 * WARM_RELOADS:])
        print(f"resident memory: {first >> 10} KiB in the first {WARM_RELOADS} seconds, {last >> 10} KiB in the last")
        assert last < first + MOST_GROWTH, "memory grows with reloads"


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    tests = Reload(sys.argv[1], sys.argv[2])
    begun = time.monotonic()
    try:
        tests.run(float(os.environ.get("RK_RELOAD_SECONDS") or 600))
    finally:
        shutil.rmtree(tests.folder)
    print(f"reload_under_load: {time.monotonic() - begun:.0f} s")
