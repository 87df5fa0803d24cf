#!/usr/bin/env python3
"""deploy/serving/nginx.conf: two servers behind Debian's nginx; one is ended and started again, and one is killed, under load, and no request fails.
77 (a skipped test) without nginx, or where the program cannot serve.

    check_balancer.py SOURCE_DIR PROGRAM
"""
import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from small_run import ROW, Server, train

MAIN = """
daemon off;
pid %(folder)s/nginx.pid;
error_log stderr;
worker_processes 1;
events {}
http {
    access_log off;
    client_body_temp_path %(folder)s/body;
    proxy_temp_path %(folder)s/proxy;
    fastcgi_temp_path %(folder)s/fastcgi;
    uwsgi_temp_path %(folder)s/uwsgi;
    scgi_temp_path %(folder)s/scgi;
    include %(folder)s/reckon.conf;
}
"""
CLIENTS = 4


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Balancer:
    def __init__(self, nginx, folder, text, servers):
        self.port = free_port()
        for listed, used in (("8500", self.port), *zip(("8501", "8502"), servers)):
            assert text.count(f"127.0.0.1:{listed}") == 1, listed
            text = text.replace(f"127.0.0.1:{listed}", f"127.0.0.1:{used}")
        (folder / "reckon.conf").write_text(text)
        (folder / "nginx.conf").write_text(MAIN % {"folder": folder})
        self.process = subprocess.Popen([nginx, "-p", folder, "-e", "stderr", "-c", folder / "nginx.conf"], stderr=open(folder / "nginx.log", "w"))
        until = time.monotonic() + 10
        while True:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.poll() is None and time.monotonic() < until, (folder / "nginx.log").read_text()
            time.sleep(0.02)

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


class Load:
    """Clients that ask without a pause, on connections that are kept."""

    def __init__(self, port):
        self.port, self.n, self.failed, self.ended = port, 0, [], threading.Event()
        self.threads = [threading.Thread(target=self.ask) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self):
        body = json.dumps({"instances": [ROW]})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        while not self.ended.is_set():
            try:
                connection.request("POST", "/v1/models/run:predict", body)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 200:
                    self.failed.append((answer.status, text))
            except OSError as lost:
                self.failed.append(lost)
                connection.close()
            self.n += 1

    def wait(self, n):
        first, until = self.n, time.monotonic() + 30
        while self.n < first + n and not self.failed:
            assert time.monotonic() < until, "the balancer does not answer"
            time.sleep(0.01)
        assert not self.failed, self.failed[:3]

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


def answered(server):
    return sum(int(n) for n in re.findall(r'^reckon_requests_total\{.*code="200"\} (\d+)', server.get("/metrics")[1], re.M))


def wait_for_share(load, server):
    """nginx sends requests to this server too."""
    before, until = answered(server), time.monotonic() + 20
    while answered(server) < before + 50:
        load.wait(20)
        assert time.monotonic() < until, "one server is left out"


def check(program, run, balancer, servers):
    load = Load(balancer.port)
    try:
        for server in servers:
            wait_for_share(load, server)
        servers[0].stop()
        load.wait(100)
        assert servers[0].process.wait(30) == 0
        load.wait(100)
        servers[0] = Server(program, run, listen=f"127.0.0.1:{servers[0].port}")
        wait_for_share(load, servers[0])
        servers[1].process.kill()
        load.wait(200)
    finally:
        load.end()
    assert not load.failed, load.failed[:3]
    print(f"{load.n} requests, none failed")


def main():
    source, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if not nginx:
        print("skipped: nginx is not installed", file=sys.stderr)
        sys.exit(77)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="balancer-"))
    folder.chmod(0o755)  # nginx's workers are another user where this one is root
    servers, balancer = [], None
    try:
        run = train(program, folder)
        servers = [Server(program, run), Server(program, run)]
        balancer = Balancer(nginx, folder, (source / "deploy/serving/nginx.conf").read_text(), [s.port for s in servers])
        check(program, run, balancer, servers)
    finally:
        if balancer:
            balancer.stop()
        for server in servers:
            if server.process.poll() is None:
                server.process.kill()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
