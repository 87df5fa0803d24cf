#!/usr/bin/env python3
"""What a link gives: the time of one byte there and back, and the rate of a long transfer.

    measure.py serve            answers one client, then ends
    measure.py ADDRESS BYTES    prints: milliseconds, Mbit/s
"""
import socket
import sys
import time

PORT, N_PINGS = 7700, 50


def exactly(link, n):
    while n:
        got = len(link.recv(min(n, 1 << 20)))
        if not got:
            raise EOFError
        n -= got


def serve():
    with socket.create_server(("", PORT)) as server:
        link, _ = server.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(N_PINGS):
            exactly(link, 1)
            link.sendall(b"x")
        exactly(link, int(link.recv(20)))
        link.sendall(b"x")


def ask(address, n_bytes):
    link = None
    while link is None:
        try:
            link = socket.create_connection((address, PORT), timeout=20)
        except ConnectionRefusedError:
            time.sleep(0.05)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times = []
    for _ in range(N_PINGS):
        began = time.perf_counter()
        link.sendall(b"x")
        exactly(link, 1)
        times.append(time.perf_counter() - began)
    link.sendall(f"{n_bytes:<20}".encode())
    began = time.perf_counter()
    block = bytes(1 << 20)
    for sent in range(0, n_bytes, len(block)):
        link.sendall(block[: n_bytes - sent])
    exactly(link, 1)
    took = time.perf_counter() - began
    print(f"{sorted(times)[N_PINGS // 2] * 1e3:.3f} {n_bytes * 8e-6 / took:.0f}")


if sys.argv[1] == "serve":
    serve()
else:
    ask(sys.argv[1], int(sys.argv[2]))
