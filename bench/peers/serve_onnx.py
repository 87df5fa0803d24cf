"""W9's peer: ONNX Runtime behind uvicorn (uvloop, httptools) and orjson, for the same requests that Reckon's server takes. A bare ASGI application: a framework would cost more.

    serve_onnx.py MODEL.onnx PORT [NUMBERS]      NUMBERS: names of the columns that are the model's dense input, in its order
"""
import sys

import numpy as np
import onnxruntime
import orjson
import uvicorn


class Model:
    def __init__(self, path, numbers):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.features = {i.name[:-4]: len(i.shape) for i in self.session.get_inputs() if i.name.endswith(".ids")}  # with dimensions
        self.numbers = numbers
        self.output = self.session.get_outputs()[0].name

    def run(self, columns, rows):
        """columns: of each feature its ids, one row after the other; `dense`: numbers [rows, numbers]."""
        inputs = {name + ".ids": columns[name].reshape(rows, -1) if n_dims == 2 else columns[name] for name, n_dims in self.features.items()}
        if self.numbers:
            inputs["dense"] = columns["dense"]
        return self.session.run([self.output], inputs)[0]

    def predict(self, body):
        """{"context": {column: value or list}, "instances": [{column: value or list}, ...]}, bags of a column all of one length."""
        request = orjson.loads(body)
        rows, context = request["instances"], request.get("context", {})
        n, columns = len(rows), {}
        for name in self.features:
            if name in context:
                columns[name] = np.tile(np.array(context[name], np.int64).reshape(-1), n)
            elif isinstance(rows[0][name], list):
                columns[name] = np.array([value for row in rows for value in row[name]], np.int64)
            else:
                columns[name] = np.array([row[name] for row in rows], np.int64)
        if self.numbers:
            columns["dense"] = np.tile(np.array([context[name] for name in self.numbers], np.float32), (n, 1))
        return orjson.dumps({"predictions": self.run(columns, n)}, option=orjson.OPT_SERIALIZE_NUMPY)

    def infer(self, body, n_json):
        """The Open Inference Protocol with binary tensors."""
        columns, at = {}, n_json
        for tensor in orjson.loads(memoryview(body)[:n_json])["inputs"]:
            size = tensor["parameters"]["binary_data_size"]
            dtype = np.float32 if tensor["datatype"] == "FP32" else np.int64
            columns[tensor["name"]] = np.frombuffer(body, dtype, offset=at, count=size // np.dtype(dtype).itemsize)
            at += size
            rows = tensor["shape"][0]
        if self.numbers:
            columns["dense"] = np.stack([columns[name] for name in self.numbers], axis=1)
        out = self.run(columns, rows)
        head = orjson.dumps({"outputs": [{"name": self.output, "shape": [rows], "datatype": "FP32", "parameters": {"binary_data_size": out.nbytes}}]})
        return head + out.tobytes(), len(head)


def application(model):
    async def app(scope, receive, send):
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message["body"])
            more = message["more_body"]
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if scope["path"].endswith("/infer"):
            n_json = int(next(value for name, value in scope["headers"] if name == b"inference-header-content-length"))
            answer, n_head = model.infer(body, n_json)
            headers = [(b"content-type", b"application/octet-stream"), (b"inference-header-content-length", b"%d" % n_head)]
        else:
            answer, headers = model.predict(body), [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, (b"content-length", b"%d" % len(answer))]})
        await send({"type": "http.response.body", "body": answer})

    return app


if __name__ == "__main__":
    uvicorn.run(application(Model(sys.argv[1], sys.argv[3].split(",") if len(sys.argv) > 3 else [])), host="127.0.0.1", port=int(sys.argv[2]), loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="warning")
