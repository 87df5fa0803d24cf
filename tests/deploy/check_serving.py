#!/usr/bin/env python3
"""deploy/serving: its files fit one another, and the server does with them what they count on: it takes their serve.yaml and arguments, answers the probes, and the image's health check.
Schemas of Kubernetes and KServe: tests/deploy/manifests. 77 (a skipped test) without PyYAML, or where the program cannot serve.

    check_serving.py SOURCE_DIR PROGRAM
"""
import copy
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

from small_run import ROW, Server, train

MARGIN = 5  # seconds beside the drain, for a server to end in


def selected(labels, selector):
    return bool(selector) and selector.items() <= labels.items()


def container_problems(pod, config, dockerfile):
    container = pod["containers"][0]
    volumes = {volume["name"] for volume in pod["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    if mounts.keys() != volumes or volumes != {"config", "models"}:
        yield f"volumes are {sorted(volumes)}, and {sorted(mounts)} are mounted"
        return
    if container["args"] != [mounts["config"] + "/serve.yaml"]:
        yield "is not started with the config map's serve.yaml"
    yield from (f"model {model['name']} is not below the models' mount" for model in config["models"] if not model["path"].startswith(mounts["models"] + "/"))
    if str(pod["securityContext"]["runAsUser"]) != re.search(r"--uid (\d+)", dockerfile)[1]:
        yield "does not run as the image's user"
    if config["listen"] != f"0.0.0.0:{ports['http']}":
        yield f"listens at {config['listen']}, and its port is {ports['http']}"
    yield from (f"{probe} asks port {container[probe]['httpGet']['port']}" for probe in ("startupProbe", "readinessProbe", "livenessProbe") if container[probe]["httpGet"]["port"] not in ports)
    threads = {str(config["batching"]["num_batch_threads"]), container["resources"]["requests"]["cpu"], *(e["value"] for e in container["env"] if e["name"] == "RK_THREADS")}
    if len(threads) != 1:
        yield f"threads and processors are not as many: {sorted(threads)}"


def kubernetes_problems(objects, dockerfile):
    by_kind = {o["kind"]: o for o in objects}
    config = yaml.safe_load(by_kind["ConfigMap"]["data"]["serve.yaml"])
    template = by_kind["Deployment"]["spec"]["template"]
    labels, pod = template["metadata"]["labels"], template["spec"]
    yield from container_problems(pod, config, dockerfile)
    service = by_kind["Service"]["spec"]
    for name, selector in (("the deployment", by_kind["Deployment"]["spec"]["selector"]["matchLabels"]), ("the service", service["selector"]),
                           ("the disruption budget", by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"])):
        if not selected(labels, selector):
            yield f"{name} does not select the pods"
    if service["ports"][0]["targetPort"] not in {port["name"] for port in pod["containers"][0]["ports"]}:
        yield "the service sends to a port that the pods do not have"
    if pod["terminationGracePeriodSeconds"] < config["drain_delay"] + config["drain_timeout"] + MARGIN:
        yield "pods are killed before they have drained"
    readiness = pod["containers"][0]["readinessProbe"]
    if config["drain_delay"] < readiness["periodSeconds"] * readiness["failureThreshold"]:
        yield "pods stop to take requests before anyone sees that they are not ready"
    if by_kind["Deployment"]["spec"]["replicas"] <= by_kind["PodDisruptionBudget"]["spec"]["maxUnavailable"]:
        yield "the disruption budget lets all pods go at once"
    if pod["volumes"][0]["configMap"]["name"] != by_kind["ConfigMap"]["metadata"]["name"]:
        yield "the pods mount another config map"


def broken(objects):
    """Copies of the objects, each wrong in one place."""
    def change(text, kind, *path_and_value):
        *path, key, value = path_and_value
        wrong = copy.deepcopy(objects)
        at = next(o for o in wrong if o["kind"] == kind)
        for step in path:
            at = at[step]
        at[key] = value
        return text, wrong
    pod = ("spec", "template", "spec")
    container = (*pod, "containers", 0)
    text = next(o for o in objects if o["kind"] == "ConfigMap")["data"]["serve.yaml"]
    yield change("a grace period that is too short", "Deployment", *pod, "terminationGracePeriodSeconds", 40)
    yield change("a delay that is too short", "ConfigMap", "data", "serve.yaml", text.replace("drain_delay: 10", "drain_delay: 1"))
    yield change("another port", "ConfigMap", "data", "serve.yaml", text.replace("8501", "8500"))
    yield change("loopback alone", "ConfigMap", "data", "serve.yaml", text.replace("0.0.0.0", "127.0.0.1"))
    yield change("models elsewhere", "ConfigMap", "data", "serve.yaml", text.replace("/models/", "/data/"))
    yield change("other labels", "Service", "spec", "selector", {"app.kubernetes.io/name": "reckon"})
    yield change("no labels", "PodDisruptionBudget", "spec", "selector", "matchLabels", {})
    yield change("a service of another port", "Service", "spec", "ports", 0, "targetPort", "https")
    yield change("a budget of all", "PodDisruptionBudget", "spec", "maxUnavailable", 2)
    yield change("a volume that is not there", "Deployment", *container, "volumeMounts", 0, "name", "configuration")
    yield change("another file", "Deployment", *container, "args", ["/etc/serve.yaml"])
    yield change("root", "Deployment", *pod, "securityContext", "runAsUser", 0)
    yield change("more threads than processors", "Deployment", *container, "resources", "requests", "cpu", "2")
    yield change("a probe of no port", "Deployment", *container, "livenessProbe", "httpGet", "port", "https")


def image_problems(dockerfile):
    target = re.search(r"^COPY deploy/serving/serve\.yaml (\S+)", dockerfile, re.M)[1]
    if f'"reckon", "health", "{target}"' not in dockerfile or f'CMD ["{target}"]' not in dockerfile:
        yield "the health check, or what is run, is not of the file that was copied"
    users = re.findall(r"^USER (\S+)", dockerfile, re.M)
    if users != ["1000:1000"]:
        yield f"its user is {users}"


def probes_of(container):
    return [container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")]


def check_file(program, folder, text, name, probes):
    """The server takes a serve.yaml whose models lie elsewhere; probes and the health check see it come and go."""
    place = folder / "serve.yaml"
    place.write_text(re.sub(r"drain_delay: \d+", "drain_delay: 1", text.replace("/models/", f"{folder}/")))
    with Server(program, place) as server:
        asked = place.with_name("asked.yaml")
        asked.write_text(re.sub(r"0\.0\.0\.0:\d+", f"0.0.0.0:{server.port}", place.read_text()))

        def health():
            return subprocess.run([program, "health", asked], capture_output=True, text=True)
        for path in probes:
            assert server.get(path)[0] == 200, path
        assert server.get(f"/v1/models/{name}:predict", {"instances": [ROW]})[0] == 200
        assert (ended := health()).returncode == 0 and ended.stdout == "ready\n", ended
        server.stop()
        until = time.monotonic() + 5
        while "not ready: it answers 503" not in (ended := health()).stderr:
            assert ended.returncode == 0 and time.monotonic() < until, ended
        assert ended.returncode == 1
    assert health().returncode == 1


def check_runtime(program, folder, objects):
    runtime, service = objects
    container = runtime["spec"]["containers"][0]
    name, port = service["metadata"]["name"], container["ports"][0]["containerPort"]
    assert {container[probe]["httpGet"]["port"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")} == {port}
    assert service["spec"]["predictor"]["model"]["runtime"] == runtime["metadata"]["name"]
    assert service["spec"]["predictor"]["model"]["modelFormat"]["name"] in [f["name"] for f in runtime["spec"]["supportedModelFormats"]]
    arguments = [argument.replace("{{.Name}}", name).replace("/mnt/models", str(folder / "run")) for argument in container["args"]]
    assert arguments.pop(0) == f"--listen=0.0.0.0:{port}"
    with Server(program, *arguments) as server:
        for path in [*probes_of(container), f"/v2/models/{name}/ready", f"/v1/models/{name}", runtime["spec"]["annotations"]["prometheus.kserve.io/path"]]:
            assert server.get(path)[0] == 200, path


def main():
    source, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    deploy = source / "deploy" / "serving"
    dockerfile = (deploy / "Dockerfile").read_text()
    objects = list(yaml.safe_load_all((deploy / "kubernetes.yaml").read_text()))
    found = [*kubernetes_problems(objects, dockerfile), *image_problems(dockerfile)]
    found += [f"this check does not see {text}" for text, wrong in broken(objects) if not list(kubernetes_problems(wrong, dockerfile))]
    if found:
        sys.exit("\n".join(f"deploy/serving: {line}" for line in found))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="serving-"))
    try:
        train(program, folder)
        for name in ("adult", "model"):
            (folder / name).symlink_to("run")
        container = next(o for o in objects if o["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]
        check_file(program, folder, objects[0]["data"]["serve.yaml"], "adult", probes_of(container))
        check_file(program, folder, (deploy / "serve.yaml").read_text(), "model", ["/v2/health/ready"])
        check_runtime(program, folder, list(yaml.safe_load_all((deploy / "kserve.yaml").read_text())))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
