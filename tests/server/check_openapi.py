#!/usr/bin/env python3
"""GET /openapi.json: whole, and of the resources that there are; answers look as it says. tests/server/openapi_answers asks at length.

    check_openapi.py PROGRAM [TEST...]      77: this build cannot serve, or there is no jsonschema
"""
import json
import re
import sys

from serving import main, Server, Tests

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)


def problems(schema, value, document):
    """What is wrong with a value, by the document's own schema."""
    whole = {**schema, "components": document["components"]}  # where its references lead
    return [f"{error.json_path}: {error.message[:300]}" for error in jsonschema.Draft202012Validator(whole).iter_errors(value)]


def find(document, reference):
    at = document
    for name in reference.removeprefix("#/").split("/"):
        at = at[name]
    return at


def references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if "$ref" in value else []
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


class OpenAPI(Tests):
    def looks_right(self, s, document, path, method, body=None, code=200):
        """An answer's status, content type and body; path: the document's."""
        at = path.format(model=self.model, version=self.version, label="stable")
        status, text, headers = s.ask(at, body, {"X-Request-Id": "asked"}, method=method)
        assert status == code, (at, status, text[:300])
        response = document["paths"][path][method.lower()]["responses"][str(status)]
        response = find(document, response["$ref"])
        for name, described in response["headers"].items():
            described = find(document, described["$ref"]) if "$ref" in described else described
            if described["schema"]["type"] == "string" and name in headers:
                assert not problems(described["schema"], headers[name], document), (at, name, headers[name])
        assert headers["X-Request-Id"] == "asked" and "X-Request-Id" in response["headers"]
        (kind, content), = [(kind, content) for kind, content in response["content"].items() if headers["Content-Type"].split(";")[0] == kind]
        if kind == "application/json":
            wrong = problems(content["schema"], json.loads(text), document)
            assert not wrong, (at, wrong)

    def test_document(self):
        with Server(self, model=", version_labels: [{name: stable, version: 7}]") as s:
            status, document = s.json("/openapi.json")
            version = s.json("/v2")[1]["version"]
            assert status == 200 and document["openapi"] == "3.1.0" and document["info"]["version"] == version
            for reference in references(document):
                find(document, reference)
            used = {reference.rsplit("/", 2)[1] + "/" + reference.rsplit("/", 1)[1] for reference in references(document)}
            unused = {f"{kind}/{name}" for kind in ("schemas", "responses", "requestBodies", "parameters", "headers") for name in document["components"][kind]} - used
            assert not unused, unused
            operations = [operation for item in document["paths"].values() for key, operation in item.items() if key in ("get", "post")]
            assert len({operation["operationId"] for operation in operations}) == len(operations) == len(document["paths"]) == 30, len(operations)
            for path, item in document["paths"].items():
                names = [find(document, parameter["$ref"]) for parameter in item.get("parameters", [])]
                assert {p["name"] for p in names if p["in"] == "path"} == set(re.findall(r"{(\w+)}", path)), path

    def test_answers(self):
        row = self.instances[0]
        tensors = [{"name": k, "shape": [1], "datatype": {"age": "INT64", "price": "FP64"}.get(k, "BYTES"), "data": [v]} for k, v in row.items()]
        bodies = {":predict": ({"instances": [row]}, {"inputs": {k: [v, v] for k, v in row.items()}}, {"context": row, "instances": [{}, {}], "signature_name": "serving_default"}),
                  ":classify": ({"examples": [row]},), ":regress": ({"examples": [row], "signature_name": "rating"},), "/infer": ({"inputs": tensors, "id": "1"},),
                  ":retrieve": ({"instances": self.instances[:2]}, {"context": row, "k": 3, "exclude": ["a"], "with_known": True})}
        self.model, self.version = "ads", 7
        with Server(self, model=", version_labels: [{name: stable, version: 7}]") as s:
            document = s.json("/openapi.json")[1]
            for path, item in document["paths"].items():
                if "get" in item:
                    self.looks_right(s, document, path, "GET")
                    assert s.ask(path.format(model="ads", version=7, label="stable"), b"{}")[0] == 405, path
                    continue
                ending, = [ending for ending in bodies if path.endswith(ending)]
                schema = find(document, find(document, item["post"]["requestBody"]["$ref"])["content"]["application/json"]["schema"]["$ref"])
                for body in bodies[ending]:
                    wrong = problems(schema, body, document)
                    assert not wrong, (path, wrong)
                    self.looks_right(s, document, path, "POST", body, 400 if ending == ":retrieve" else 200)
                self.looks_right(s, document, path, "POST", b"{", 400)
                self.looks_right(s, document, path, "POST", b" " * 30000, 413)
            self.model = "none"
            for path in document["paths"]:
                if "{model}" in path:
                    self.looks_right(s, document, path, "GET" if "get" in document["paths"][path] else "POST", code=404)
        self.towers("vocabulary: {}")
        self.model = "ads"
        with Server(self, run="towers") as s:
            document = s.json("/openapi.json")[1]
            for path in ("/v2/models/{model}", "/v1/models/{model}/metadata"):
                self.looks_right(s, document, path, "GET")
            self.looks_right(s, document, "/v1/models/{model}:retrieve", "POST", {"instances": self.users[:3], "k": 3})
        (self.folder / "tokens").write_text("first\n")
        with Server(self, more=f"auth: {{bearer_file: {self.folder}/tokens}}") as s:
            for path, item in document["paths"].items():
                if "get" in item and path not in ("/v2/health/live", "/v2/health/ready"):
                    self.looks_right(s, document, path, "GET", code=401)


if __name__ == "__main__":
    main(OpenAPI)
