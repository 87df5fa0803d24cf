"""W9 without a server: ONNX Runtime on one thread over the first rows of a workload's batches, as bench_forward does it.

    onnx_forward.py MODEL.onnx DIRECTORY ROWS [--seconds 1]

Inputs and outputs are bound (the quickest way into it), and the same call of a model that only hands one number on tells what the binding itself costs.
"""
import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import uvicorn
from common import Workload
from onnx import TensorProto, helper


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def bound(session, inputs):
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output(session.get_outputs()[0].name, "cpu")
    return binding


def timed(session, bindings, seconds):
    """Median of a call's processor seconds, over runs of a millisecond, the bindings by turns."""
    def run(n):
        begin = time.process_time()
        for i in range(n):
            session.run_with_iobinding(bindings[i % len(bindings)])
        return (time.process_time() - begin) / n

    run(len(bindings))
    n = 1 + int(1e-3 / max(run(len(bindings)), 1e-7))
    times, until = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < until:
        times.append(run(n))
    return statistics.median(times), n * len(times)


def call_seconds():
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    model = helper.make_model(helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", value[:1], value[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = session_of(model.SerializeToString())
    return timed(session, [bound(session, {"x": np.zeros(1, np.float32)})], 0.1)[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("directory")
    parser.add_argument("rows", type=int)
    parser.add_argument("--seconds", type=float, default=1)
    args = parser.parse_args()
    w, n = Workload(Path(args.directory)), args.rows
    session = session_of(args.model)
    dense = np.fromfile(w.directory / "dense.f32", np.float32).reshape(w.n_batches, w.n, w.n_dense)
    bindings = []
    for b in range(w.n_batches):
        inputs = {"dense": dense[b, :n]} if w.n_dense else {}
        for f in w.features:
            inputs[f.name + ".ids"] = np.ascontiguousarray(f.ids[b, :n]).reshape((n, f.hotness) if f.hotness > 1 else n)
        bindings.append(bound(session, inputs))
    session.run_with_iobinding(bindings[0])
    predictions = bindings[0].copy_outputs_to_cpu()[0].reshape(-1).tolist()
    seconds, calls = timed(session, bindings, args.seconds)
    print(json.dumps({"seconds": seconds, "calls": calls, "call_seconds": call_seconds(), "predictions": predictions,
                      "versions": {"onnxruntime": onnxruntime.__version__, "numpy": np.__version__, "uvicorn": uvicorn.__version__, "onnx": onnx.__version__}}))


if __name__ == "__main__":
    main()
