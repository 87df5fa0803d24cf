#!/usr/bin/env python3
"""deploy/mpijob.yaml has fields that the MPI operator knows, and its parts fit one another and the image. 77 (a skipped test) without PyYAML or jsonschema.

    check_deploy.py SOURCE_DIR
"""
import copy
import pathlib
import re
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)


def problems(job, schema, dockerfile):
    found = [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in jsonschema.Draft7Validator(schema).iter_errors(job)]
    if found:
        return found
    spec = job["spec"]
    launcher, worker = spec["mpiReplicaSpecs"]["Launcher"], spec["mpiReplicaSpecs"]["Worker"]
    command = launcher["template"]["spec"]["containers"][0]["command"]
    ranks = int(command[command.index("-n") + 1])
    slots = worker["replicas"] * spec["slotsPerWorker"]
    if ranks != slots:
        found.append(f"the launcher starts {ranks} ranks, and workers have {slots} slots")
    user = re.search(r"useradd .*--uid (\d+) (\w+)", dockerfile)
    if spec["sshAuthMountPath"] != f"/home/{user[2]}/.ssh":
        found.append(f"keys are mounted at {spec['sshAuthMountPath']}, which is not in the home of the image's user {user[2]}")
    for name, replica in spec["mpiReplicaSpecs"].items():
        pod = replica["template"]["spec"]
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        if pod.get("securityContext", {}).get("runAsUser") != int(user[1]):
            found.append(f"{name} does not run as the image's user {user[1]}")
        for container in pod["containers"]:
            found += [f"{name} mounts '{m['name']}', which is no volume" for m in container.get("volumeMounts", []) if m["name"] not in volumes]
            if f"/usr/local/bin/{container['command'][0]}\n" not in dockerfile:
                found.append(f"{name} runs '{container['command'][0]}', which the image does not hold")
    return found


def broken(job):
    """Copies of the job, each wrong in one place."""
    def change(text, *path_and_value):
        *path, key, value = path_and_value
        wrong = copy.deepcopy(job)
        at = wrong
        for step in path:
            at = at[step]
        at[key] = value
        return text, wrong
    worker = ("spec", "mpiReplicaSpecs", "Worker")
    yield change("an unknown key", "spec", "slotPerWorker", 1)
    yield change("a wrong version", "apiVersion", "kubeflow.org/v1")
    yield change("a word for a number", *worker, "replicas", "4")
    yield change("too few workers", *worker, "replicas", 3)
    yield change("an unknown policy", *worker, "restartPolicy", "Sometimes")
    yield change("keys elsewhere", "spec", "sshAuthMountPath", "/root/.ssh")
    yield change("a volume that is not there", *worker, "template", "spec", "volumes", [])
    yield change("a number as an argument", "spec", "mpiReplicaSpecs", "Launcher", "template", "spec", "containers", 0, "command", ["reckon-launch", "-n", 4])
    yield change("another program", *worker, "template", "spec", "containers", 0, "command", ["sshd"])
    yield change("another user", *worker, "template", "spec", "securityContext", "runAsUser", 0)


def main():
    root = pathlib.Path(sys.argv[1])
    schema = yaml.safe_load((root / "tests/dist/mpijob_schema.yaml").read_text())
    job = yaml.safe_load((root / "deploy/mpijob.yaml").read_text())
    dockerfile = (root / "deploy/Dockerfile").read_text()
    found = problems(job, schema, dockerfile)
    found += [f"this check does not see {text}" for text, wrong in broken(job) if not problems(wrong, schema, dockerfile)]
    for line in found:
        print(f"deploy/mpijob.yaml: {line}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
