#!/usr/bin/env python3
"""Requests and their answers: those of `reckon predict`, however requests are joined; what is wrong is refused with its reason; what is not known is counted.

    check_requests.py PROGRAM [TEST...]      77: this build cannot serve
"""
import base64
import json
import random
import re
import struct
import subprocess
import threading
import time

from serving import main, RUN, Server, single, Tests


class Requests(Tests):
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
            items = [{k: row[k] for k in item} for row in self.instances[:150]]
            beside, full = {"context": context, "instances": items}, {"instances": [{**context, **i} for i in items]}
            assert s.predict(beside) == s.predict(full)  # what the context decides is computed once
            assert s.predict({"context": context, "inputs": {k: [i[k] for i in items] for k in item}}) == s.predict({"inputs": {k: [i[k] for i in full["instances"]] for k in {**context, **item}}})
            assert s.predict({"context": {**context, **item}, "instances": [{}] * 3})[1]["predictions"] == [answer["predictions"][3]] * 3
            assert s.predict({"context": {**context, "age": "old"}, "instances": items})[0] == 400
            for context_value, wrong, behind in ([7], "[7]", 0), ({"age": [{}]}, "{}", 2):
                body = {"instances": items, "context": context_value}
                status, refusal = s.predict(body)
                assert status == 400 and f"byte {json.dumps(body).rindex(wrong) + behind}: " in refusal["error"], refusal  # of the whole request
            some = {"context": {**context, "city": "Oslo"}, "instances": [item, self.instances[3], {**item, "city": context["city"]}, {**item, "city": None}]}
            each = {"instances": [{**item, **context, "city": "Oslo"}, self.instances[3], self.instances[3], {**item, **context, "city": None}]}
            assert s.predict(some) == s.predict(each)  # what a row has itself goes first, in this row alone
            p = answer["predictions"][0]
            assert s.predict({"examples": self.instances[:1]}, ":classify")[1]["result"][0][1] == ["1", p["click"]]
            assert s.predict({"examples": self.instances[:1], "signature_name": "rating"}, ":regress")[1] == {"result": [p["rating"]]}
            assert s.predict({"instances": []})[1] == {"predictions": []}
            missing = s.predict({"instances": [{**self.instances[0], "city": None, "price": None}, {**self.instances[0], "city": "", "price": ""}]})[1]["predictions"]
            assert missing[0] == missing[1]

    def test_infer_of_floats(self):
        """A float is the same value as JSON and as bytes, also where its text counts: 3.0 is 3, 0.1 is 0.1."""
        numbers = [3.0, 0.1, 1234567936.0, -2.5, 1e-7, 100000.0]
        with Server(self) as s:

            def ask(user, tail=b""):
                n, parameters = user["shape"], {"age": "INT64", "price": "FP64"}
                others = [{"name": k, "shape": n, "datatype": parameters.get(k, "BYTES"), "data": [v] * n[0]} for k, v in self.instances[0].items() if k != "user"]
                head = json.dumps({"inputs": [*others, {"name": "user", **user}]}).encode()
                status, text, _ = s.ask("/v2/models/ads/infer", head + tail, headers={"Inference-Header-Content-Length": str(len(head))})
                return {o["name"]: o["data"] for o in json.loads(text)["outputs"]}["click"]

            rows = [{**self.instances[0], "user": f"{n:.0f}" if n == int(n) else f"{n:g}"} for n in numbers]
            expected = [p["click"] for p in s.predict({"instances": rows})[1]["predictions"]]
            for datatype, code in ("FP32", "f"), ("FP64", "d"):
                data = struct.pack(f"<6{code}", *numbers)
                given = {"shape": [6], "datatype": datatype}
                assert ask({**given, "data": list(struct.unpack(f"<6{code}", data))}) == expected, datatype
                assert ask({**given, "parameters": {"binary_data_size": len(data)}}, data) == expected, datatype
            for datatype, code, number in ("FP16", "e", 0.1), ("FP16", "e", 2049), ("FP32", "f", 16777217), ("FP64", "d", 2**53 + 1):  # what no such float is
                data, given = struct.pack(f"<{code}", number), {"shape": [1], "datatype": datatype}
                assert ask({**given, "data": [number]}) == ask({**given, "parameters": {"binary_data_size": len(data)}}, data), (datatype, number)

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

    def test_context_joined(self):
        """A context beside many rows is computed once, for its request alone; with one row the request is joined with others. The answers are the same."""
        def executions(n):
            with Server(self, more="batching: {batch_timeout_micros: 300000, num_batch_threads: 1}") as s:
                rows = [{k: v for k, v in row.items() if k != "city"} for row in self.instances[:n]]
                wanted = s.predict({"instances": [{**row, "city": "Rome"} for row in rows]})
                before, got = self.counted(s), []
                threads = [threading.Thread(target=lambda: got.append(s.predict({"context": {"city": "Rome"}, "instances": rows}))) for _ in range(8)]
                [t.start() for t in threads]
                [t.join() for t in threads]
                assert wanted[0] == 200 and got == [wanted] * 8, (wanted, got)
                return self.counted(s) - before

        assert executions(1) < 8 and executions(12) == 8

    @staticmethod
    def counted(server):
        return int(re.search(r"^reckon_executions_total (\d+)$", server.ask("/metrics")[1].decode(), re.M)[1])

    def test_other_model_is_not_held_up(self):
        """A worker that waits for more of one model is not the only one that hears of a request for another."""
        with Server(self, model=f"}}, {{name: other, path: {self.serve_run}", more="batching: {batch_timeout_micros: 1000000, num_batch_threads: 2}") as s:
            def ask(name):
                begun = time.monotonic()
                assert s.json(f"/v1/models/{name}:predict", {"instances": self.instances[:2]})[0] == 200
                took.append(time.monotonic() - begun)

            for _ in range(8):  # one that is held up takes 1.35 s each time; a busy machine is slow only now and then
                took, threads = [], []
                for name, pause in (("other", 0.5), ("ads", 0.65), ("other", 0)):  # the third comes while one worker waits, and one has nothing to do
                    threads.append(threading.Thread(target=ask, args=(name,)))
                    threads[-1].start()
                    time.sleep(pause)
                [t.join() for t in threads]
                if max(took) < 1.2:
                    return
            raise AssertionError(took)

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

    def test_errors_are_utf8(self):
        """Bytes of a request that stand in an error's text are no text, or cut in a character: the answer is UTF-8 all the same."""
        with Server(self) as s:
            row = {**self.instances[0], "age": {"b64": base64.b64encode(b"4\xff\xe2\x82").decode()}}
            assert "4\ufffd\ufffd\ufffd" in s.predict({"instances": [row]})[1]["error"]
            status, answer = s.predict({"instances": [], "signature_name": "x" + "é" * 200})
            assert status == 400 and "é\ufffd'" in answer["error"], answer

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


if __name__ == "__main__":
    main(Requests)
