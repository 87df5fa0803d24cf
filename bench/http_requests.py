"""Requests for predictions as bytes, each with the body that it may be answered with, and the files of them that bench_http_load reads."""
import array
import json
import socket
import struct

DATATYPES = {"int64": "INT64", "float32": "FP32"}


def post(path, body, headers=()):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def predict(model, context, rows):
    """TensorFlow Serving's words: columns that all rows share, and those of each row."""
    body = json.dumps({"context": context, "instances": rows} if context else {"instances": rows}, separators=(",", ":"))
    return post(f"/v1/models/{model}:predict", body.encode(), ["Content-Type: application/json"])


def infer(model, columns):
    """The Open Inference Protocol's, with tensors [rows, values], NumPy's arrays, as bytes there and back."""
    inputs = [{"name": name, "shape": list(a.shape), "datatype": DATATYPES[str(a.dtype)], "parameters": {"binary_data_size": a.nbytes}} for name, a in columns.items()]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}, separators=(",", ":")).encode()
    return post(f"/v2/models/{model}/infer", head + b"".join(a.tobytes() for a in columns.values()),
                ["Content-Type: application/octet-stream", f"Inference-Header-Content-Length: {len(head)}"])


def write(path, requests, answers=None):
    """answers: of each request, the bodies that are right; without them any will do."""
    with open(path, "wb") as file:
        for i, request in enumerate(requests):
            accepted = answers[i] if answers else []
            file.write(struct.pack("<I", len(request)) + request + struct.pack("<I", len(accepted)))
            for body in accepted:
                file.write(struct.pack("<I", len(body)) + body)


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def ask(connection, request):
    """(status, headers, body) of a request's bytes, by a connected socket that is kept."""
    connection.sendall(request)
    got = b""
    while b"\r\n\r\n" not in got:
        got += (piece := connection.recv(1 << 16))
        if not piece:
            raise RuntimeError("the server closed the connection")
    head, _, body = got.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += connection.recv(1 << 16)
    return int(first.split()[1]), headers, body


def predictions(status, headers, body):
    """What either kind of request is answered with."""
    if status != 200:
        raise RuntimeError(f"status {status}: {body[:200]!r}")
    n_json = headers.get("inference-header-content-length")
    if n_json is None:
        return json.loads(body)["predictions"]
    return array.array("f", body[int(n_json):]).tolist()
