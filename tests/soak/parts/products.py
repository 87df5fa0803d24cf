"""What is made of a trained run: exports, a server, a run with other tables. It predicts what the run predicts."""

import copy
import http.client
import json
import math
import re
import struct
import threading

from parts import results, rows
from parts.ids import Transforms
from parts.program import Failure, Refused
from parts.ranks import spread_if_wished

LISTS = {"tags": str, "history": str, "tag_weights": float, "pair": float}
NUMBERS = ("age", "size", "weight")
# Datatypes of the Open Inference Protocol that have whole numbers, as struct has them.
INTEGERS = {"INT8": "b", "UINT8": "B", "INT16": "h", "UINT16": "H", "INT32": "i", "UINT32": "I", "INT64": "q", "UINT64": "Q", "BOOL": "?"}


def tensors_of(export):
    """Name to (dtype, shape, bytes) in all files of an export."""
    return {
        name: about
        for file in sorted((export).glob("*.safetensors"))
        for name, *about in results.tensors_in(file)
    }


def same_metrics(a, b, what):
    told = [json.loads(text)["metrics"] for text in (a, b)]
    if repr(told[0]) != repr(told[1]):
        raise Failure(f"{what}: {told[0]} and {told[1]}")


def exported(t):
    """docs/export.md: an export predicts what its run predicts with rows in its format, to the bit; the same parameters give the same bytes."""
    t.make(change=spread_if_wished(t))
    t.program.trained("run.yaml", "a", first=True, ranks=t.ranks[0])
    rows = t.case.one_of("export_rows", "trained", ["trained", "f32", "f16", "bf16", "int8", "int4"])
    shards = ["--shard-bytes", t.case.one_of("shard_bytes", 5000000000, [5000000000, 300, 4000])]
    formats = {"safetensors": [], "onnx": ["--format", "onnx"]}
    as_exported = [] if rows == "trained" else ["--rows", rows]
    wanted = t.program.ask(["predict", *as_exported, "a", "test.csv"])
    metrics = t.program.ask(["eval", "--json", "--data", "test.csv", *as_exported, "a"])
    for name, chosen in formats.items():
        t.program.ask(["export", *chosen, "--rows", rows, *shards, "a", name])
        if t.program.ask(["predict", name, "test.csv"], threads=t.threads(name)) != wanted:
            raise Failure(f"an export to {name} in {rows} predicts otherwise than the run")
        given = t.program.ask(["eval", "--json", "--data", "test.csv", name])
        if not as_exported:
            same_metrics(metrics, given, f"eval of a run and of its export to {name}")
    t.program.ask(["export", "--rows", rows, *shards, "a", "again"])
    if tensors_of(t.work / "again") != tensors_of(t.work / "safetensors"):
        raise Failure("two exports of one run differ")
    many = t.plan.kind != "two_tower" and t.ranks[-1] > 1
    if many and t.program.ask(["predict", "safetensors", "test.csv"], ranks=2) != wanted:
        raise Failure("an export predicts otherwise over two ranks")


def in_json(t, row, columns, chance):
    """A row of a file as a request has it: texts, or what JSON has for them."""
    out = {}
    for column in columns:
        text = row[column]
        if chance.random() < 0.3:
            out[column] = text
        elif column in LISTS:
            out[column] = [LISTS[column](part) for part in text.split("|")] if text else []
        elif text == "":
            out[column] = None
        elif column in NUMBERS:
            out[column] = float(text)
        elif column in ("user", "item") and chance.random() < 0.5:
            out[column] = int(text)
        else:
            out[column] = text
    return out


def is_f32_text(text):
    """Whether the text is the one that an f32 has."""
    value, = struct.unpack("<f", struct.pack("<f", float(text)))
    return next(float(t) for d in range(6, 10) if struct.pack("<f", float(t := f"{value:.{d}g}")) == struct.pack("<f", value)) == float(text)


def holds(code, values):
    """Whether struct's type has all of the numbers."""
    try:
        return all(struct.unpack(f"<{code}", struct.pack(f"<{code}", value)) == (value,) for value in values)
    except (struct.error, OverflowError):
        return False


def tensor(name, texts, chance):
    """A column as one of the Open Inference Protocol: what JSON has for it, and its bytes."""
    is_of_numbers = name in NUMBERS and "" not in texts
    whole = is_of_numbers and all(re.fullmatch("0|-?[1-9][0-9]{0,8}", text) for text in texts) or name in ("user", "item") and all(re.fullmatch("0|[1-9][0-9]*", text) for text in texts)
    codes = {"FP64": "d"} if whole or is_of_numbers else {}
    if whole:
        codes |= {datatype: code for datatype, code in INTEGERS.items() if holds(code, map(int, texts))}
    if is_of_numbers and all(map(is_f32_text, texts)):
        codes |= {"FP32": "f"} | ({"FP16": "e"} if holds("e", map(float, texts)) else {})
    datatype = chance.choice(["BYTES", *codes, *codes])
    if datatype == "BYTES":
        values, data = texts, b"".join(struct.pack("<I", len(raw := text.encode())) + raw for text in texts)
    else:
        values = [(int if datatype in INTEGERS else float)(text) for text in texts]
        data = struct.pack(f"<{len(values)}{codes[datatype]}", *values)
    return {"name": name, "shape": chance.choice([[len(texts)], [len(texts), 1]]), "datatype": datatype}, values, data


def as_tensors(rows, columns, chance):
    """A request's JSON and the bytes behind it."""
    inputs, tail = [], b""
    for name in columns:
        head, values, data = tensor(name, [row[name] for row in rows], chance)
        if chance.random() < 0.5:
            inputs.append(head | {"data": values})
        else:
            inputs.append(head | {"parameters": {"binary_data_size": len(data)}})
            tail += data
    return {"inputs": inputs}, tail


class Server:
    """A server of a run or an export at a free port."""

    def __init__(self, t, what):
        self.program, self.name = t.program, what
        self.process = t.program.start(["serve", "--listen", "127.0.0.1:0", what], threads=t.threads("serve"))

    def __enter__(self):
        said, watch = "", threading.Timer(self.program.timeout, self.process.kill)
        watch.start()
        try:
            for line in self.process.stderr:
                said += line
                if port := re.search(r"serves at port (\d+)", line):
                    self.connection = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=30)
                    return self
        finally:
            watch.cancel()
        self.program.finish(self.process)
        if "this build cannot serve" in said:
            raise Refused(said)
        raise Failure(f"serve {self.name} does not begin: {said}")

    def ask(self, body, verb="predict"):
        return self.post(f"/v1/models/{self.name}:{verb}", body)

    def infer(self, body, tail):
        """A row's answer by task, of tensors."""
        outputs = self.post(f"/v2/models/{self.name}/infer", body, tail)["outputs"]
        return [dict(zip([o["name"] for o in outputs], values)) for values in zip(*(o["data"] for o in outputs))]

    def post(self, path, body, tail=b""):
        head = json.dumps(body).encode()
        self.connection.request("POST", path, head + tail, {"Inference-Header-Content-Length": str(len(head))} if tail else {})
        response = self.connection.getresponse()
        answer = response.read().decode()
        if response.status != 200:
            raise Failure(f"{path} {json.dumps(body)[:400]} is answered by {response.status}: {answer}")
        return json.loads(answer)

    def __exit__(self, *_):
        self.connection.close()
        self.process.terminate()
        ended = self.program.finish(self.process)
        if ended.code != 0:
            raise Failure(f"serve {self.name} ends with {ended.code}: {ended.error()}")


def columns_read(plan):
    """Columns that the model reads, of a row of the file."""
    out = set()
    for feature in plan.config["data"]["features"]:
        out |= set(feature.get("cross", [feature.get("column", feature["name"])]))
        out |= {feature["weights"]} if "weights" in feature else set()
    return sorted(out - {"brand"} | ({"item"} if "brand" in out else set()))


def printed(value):
    """As predict prints an f32."""
    return float(f"{struct.unpack('<f', struct.pack('<f', value))[0]:.7g}")


def compare(t, rows, answers, lines):
    header, *lines = lines
    names = header.split(",")[1:]
    if len(answers) != len(rows):
        raise Failure(f"{len(answers)} answers to {len(rows)} rows")
    for i, row in enumerate(rows):
        answer = answers[i]
        answer = answer if isinstance(answer, dict) else {names[0]: answer}
        wanted = dict(zip(names, map(float, lines[row].split(",")[1:])))
        given = {name: printed(value) for name, value in answer.items()}
        if repr({k: given.get(k) for k in wanted}) != repr(wanted):
            raise Failure(f"row {row}: predict prints {wanted}, the server answers {answer}")


def served(t):
    """docs/serving.md: answers are the bits of predict for the same rows, however they are asked."""
    plan = t.make()
    if plan.kind == "two_tower":
        raise Refused("a two_tower scores no rows over HTTP")
    t.program.trained("run.yaml", "a", first=True)
    chance, columns = t.case.chance("requests"), columns_read(plan)
    what = t.case.one_of("served", "a", ["a", "export"])
    if what == "export":
        t.program.ask(["export", "a", what])
    lines = t.program.ask(["predict", what, "test.csv"]).splitlines()
    with Server(t, what) as server:
        for _ in range(6):
            rows = chance.sample(range(len(t.rows["test"])), chance.choice([1, 1, 2, 7, 100]))
            asked = [in_json(t, t.rows["test"][row], columns, chance) for row in rows]
            kind = chance.choice(["instances", "inputs", "context", "tensors", "tensors"])
            if kind == "tensors":
                answers = server.infer(*as_tensors([t.rows["test"][row] for row in rows], columns, chance))
            elif kind == "instances":
                answers = server.ask({"instances": asked})["predictions"]
            elif kind == "inputs":
                answers = server.ask({"inputs": {c: [a[c] for a in asked] for c in columns}})["outputs"]
                if isinstance(answers, dict):
                    answers = [dict(zip(answers, values)) for values in zip(*answers.values())]
            else:
                shared = chance.sample(columns, chance.randrange(len(columns)))
                context = {column: asked[0][column] for column in shared}
                rows, asked = rows[:1] * len(asked), [{c: v for c, v in asked[0].items() if c not in shared}] * len(asked)
                answers = server.ask({"context": context, "instances": asked})["predictions"]
            compare(t, rows, answers, lines)


def other_tables(t, plan):
    """The run's tables with other keys: static ones as dynamic ones with room for all rows, and dynamic ones of another shape."""
    chance = t.case.chance("converted")
    tables = {table["name"]: copy.deepcopy(table) for table in plan.config["embedding"].get("tables", [])}
    static = [name for name in plan.tables if name not in plan.keyed]
    for name in static:
        if chance.random() < 0.7 and not any(name == "history" == f.get("name") for f in plan.config["embedding"].get("features", [])):
            tables.setdefault(name, {"name": name}).update(
                max_capacity=chance.choice([2000, 5000]), buckets=chance.choice([0, 1, 3]), eviction={"policy": "none"}
            )
    for name in plan.keyed:
        tables[name]["max_capacity"] = chance.choice([5, 50, 3000])
        if isinstance(tables[name]["missing"], str):  # the number of cold rows is that of the buckets, or a multiple
            tables[name]["buckets"] = chance.choice([0, 1, 2, 5])
        tables[name]["eviction"] = {"policy": chance.choice(["lru", "lfu", "none"])}
        tables[name].pop("storage", None)
        if chance.random() < 0.4 and isinstance(tables[name]["missing"], str):
            tables[name]["storage"] = {"tier": "ssd", "memory": chance.choice(["1", "2KB", "100KB"])}
    return list(tables.values())


def converted(t):
    """docs/dynamic_tables.md: a run with other tables has the same rows, predicts the same, and goes back to what it was."""
    plan = t.make(change=spread_if_wished(t))
    plan.config["embedding"]["l2_full"] = 0
    t.write("run.yaml", plan.config)
    t.program.trained("run.yaml", "a", first=True, ranks=t.ranks[0])
    train = {**plan.config["train"], "output": "b"}
    t.write("b.yaml", plan.config, embedding={"tables": other_tables(t, plan)}, train=train)
    ended = t.program.run(["convert", "a", "b.yaml"])
    if ended.code != 0:
        raise Refused(f"convert failed: {ended.error()}")
    newest = results.step_of(results.newest(t.work / "a"))
    run = f"a/checkpoints/step-{newest:09d}"
    if t.program.ask(["predict", run, "test.csv"]) != t.program.ask(["predict", "b", "test.csv"]):
        raise Failure("a converted run predicts otherwise")
    t.write("c.yaml", plan.config, train={**train, "output": "c"})
    t.program.ask(["convert", "b", "c.yaml"])
    same_rows(results.newest(t.work / "a"), results.newest(t.work / "c"))
    t.program.trained("b.yaml", "b", "--resume", "--set", f"train.epochs={train['epochs'] + 1}", "--set", "train.steps=0")


def same_rows(a, b):
    """Rows, slots and dense parameters; what else is known of keys may have been lost in between."""
    x, y = results.parameters(a), results.parameters(b)
    lost = re.compile(r"/(last_batches|candidate_\w+|\w+_sketch|\w+_loads|totals|stream_clock|oov_\w+)$")
    for key in x:
        name = key[0] if isinstance(key, tuple) else key
        if not lost.search(name) and x[key] != y.get(key):
            raise Failure(f"converted there and back: {key} has other bits")


def vectors_of(t, tower, *more):
    """Name to vector: of the items, or of users, that recommend would list or answer."""
    t.program.ask(["recommend", "--vectors", tower, "--output", f"{tower}.safetensors", *more, "a"])
    names = (t.work / f"{tower}.ids.txt").read_text().splitlines()
    ((_, _, shape, data),) = results.tensors_in(t.work / f"{tower}.safetensors")
    values = struct.unpack(f"<{len(data) // 4}f", data)
    if shape[0] != len(names):
        raise Failure(f"{shape[0]} vectors of {tower}s, {len(names)} names")
    return {name: values[i * shape[1] : (i + 1) * shape[1]] for i, name in enumerate(names)}


def same_list(user, items, left_out, k, given):
    """The k items whose vectors score best with the user's, each once and with its score, best first."""
    scores = {item: math.fsum(a * b for a, b in zip(user, v)) for item, v in items.items() if item not in left_out}
    wanted = sorted(scores.values(), reverse=True)[:k]
    if len(given) != len(wanted) or len({item for _, item in given}) != len(given):
        raise Failure(f"{len(wanted)} items should be listed, {given} are")
    for best, (told, item) in zip(wanted, given):
        if item not in scores:
            raise Failure(f"{item} should not be listed: {given}")
        if max(abs(best - told), abs(scores[item] - told)) > 1e-5 * max(1, abs(best)):
            raise Failure(f"{item}, with {scores[item]}, is where an item with {best} should be: {given}")


def recommended(t):
    """docs/retrieval.md: the k best items of each user by the product of their vectors, without known ones; the same over HTTP and on any threads."""
    plan = t.make(["two_tower"])
    t.program.trained("run.yaml", "a", first=True)
    items, users = vectors_of(t, "item"), vectors_of(t, "user", "--users", "test")
    known, k = {}, t.case.one_of("k", 5, [1, 5, 500])
    splits = ["train", *(["valid"] if plan.config["data"].get("valid") == "valid.csv" else [])]
    for row in (row for split in splits for row in t.rows[split]):
        known.setdefault(row["user"], set()).add(row["item"])
    with_known = t.case.maybe("with_known", 0.4)
    ask = ["recommend", "-k", str(k), "--users", "test", *(["--with-known"] if with_known else []), "--format", "jsonl", "a"]
    lines = t.program.ask(ask, threads=3)
    if lines != t.program.ask(ask, threads=1):
        raise Failure("recommendations differ by threads")
    lists = {line["user"]: list(zip(line["scores"], line["items"])) for line in map(json.loads, lines.splitlines())}
    if lists.keys() != users.keys():
        raise Failure(f"recommendations and vectors are of other users: {sorted(lists.keys() ^ users.keys())[:5]}")
    for user, given in lists.items():
        left_out = set() if with_known else known.get(user, set())
        same_list(users[user], items, left_out, k, given)
    with Server(t, "a") as server:
        asked = t.case.chance("users").sample(sorted(lists), min(3, len(lists)))
        rows = {row["user"]: row for row in reversed(t.rows["test"])}
        for user in asked:
            answer = server.ask({"instances": [{c: rows[user][c] for c in columns_read(plan) if c != "item"}], "k": k, "with_known": with_known}, "retrieve")
            given = list(zip(answer["result"][0]["scores"], answer["result"][0]["items"]))
            if [(printed(score), item) for score, item in given] != [(printed(score), item) for score, item in lists[user]]:
                raise Failure(f"user {user}: recommend lists {lists[user]}, the server {given}")


class OnnxInputs:
    """Inputs of an exported model for rows of a file."""

    def __init__(self, transforms, data, drawn):
        import numpy

        self.np, self.transforms, self.rows = numpy, transforms, drawn
        self.dense = [feature for feature in data["features"] if feature.get("dense")]

    def bags(self, name):
        feature = self.transforms.features[name]
        return [self.transforms.ids(row, feature) for row in self.rows]

    def ragged(self, bags, dtype):
        offsets = self.np.cumsum([0, *map(len, bags)])
        return self.np.array([value for bag in bags for value in bag], dtype), offsets.astype(self.np.int64)

    def padded(self, bags, filler, dtype):
        out = self.np.full((len(bags), max(map(len, bags), default=0)), filler, dtype)
        for i, bag in enumerate(bags):
            out[i, : len(bag)] = bag
        return out

    def of(self, session):
        shapes, out = {given.name: given.shape for given in session.get_inputs()}, {}
        for name, shape in shapes.items():
            feature, _, kind = name.rpartition(".")
            if name == "dense":
                numbers = [[x for feature in self.dense for x in self.transforms.numbers(row, feature)] for row in self.rows]
                out[name] = self.np.array(numbers, self.np.float32)
            elif kind in ("ids", "weights"):
                own = self.transforms.features[feature]
                bags = self.bags(feature) if kind == "ids" else [self.transforms.weights(row, own) for row in self.rows]
                dtype = self.np.int64 if kind == "ids" else self.np.float32
                if len(shape) == 2:
                    out[name] = self.padded(bags, -1 if kind == "ids" else 1, dtype)
                else:
                    out[name], out[f"{feature}.offsets"] = self.ragged(bags, dtype)
        return {name: out[name] for name in shapes}


def in_onnxruntime(t):
    """docs/export.md: ONNX Runtime computes what predict prints, from ids made by the definitions of docs/data.md."""
    try:
        import onnxruntime
    except ImportError:
        raise Refused("no onnxruntime") from None

    def change(plan):
        plan.config["train"]["dtype"] = "f32"
        if plan.kind == "two_tower":
            plan.config["model"]["retrieval"].update(history=False)
            for key in ("max_history", "history_linear", "user_tower"):
                plan.config["model"]["retrieval"].pop(key, None)

    plan = t.make(change=change)
    t.program.trained("run.yaml", "a", first=True)
    chosen = t.case.one_of("export_rows", "trained", ["trained", "f32", "f16", "bf16", "int8", "int4"])
    has_keys = any("key" in feature for feature in plan.config["data"]["features"])
    bags = "ragged" if has_keys else t.case.one_of("bags", "ragged", ["ragged", "padded"])
    t.program.ask(["export", "--format", "onnx", "--rows", chosen, "--bags", bags, "a", "o"])
    as_exported = [] if chosen == "trained" else ["--rows", chosen]
    names, *lines = t.program.ask(["predict", *as_exported, "a", "test.csv"]).splitlines()
    wanted = [dict(zip(names.split(",")[1:], map(float, line.split(",")[1:]))) for line in lines]
    transforms = Transforms.of_export(t.work / "o", plan.config["data"], rows.brands(t.case, plan.items))
    inputs, given = OnnxInputs(transforms, plan.config["data"], t.rows["test"]), {}
    for path in sorted((t.work / "o").glob("*.onnx")):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        given |= dict(zip([out.name for out in session.get_outputs()], session.run(None, inputs.of(session))))
    if "user_vector" in given:
        given = {names.split(",")[1]: (given["user_vector"] * given["item_vector"]).sum(1)}
    for i, row in enumerate(wanted):
        for task, value in row.items():
            if not abs(value - given[task][i]) <= 2e-5 * max(1, abs(value)):
                raise Failure(f"row {i}: predict prints {task} {value}, ONNX Runtime computes {given[task][i]}")
