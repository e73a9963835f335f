"""Compares what Helm makes of deploy/helm/unslide with what kustomize makes of deploy/kubernetes, object by object, and has the
schema refuse wrong values. Run by scripts/check-deploy, which validates the objects.

Usage: check_chart.py FOLDER      for the objects, in which no other file is.
"""

import copy
import difflib
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

TOP = pathlib.Path(__file__).resolve().parent.parent
KUBERNETES = TOP / "deploy/kubernetes"
CHART = TOP / "deploy/helm/unslide"
# The values of the chart that equal a component beside the base.
COMPONENTS = {
    "keda": ["keda.enabled=true"],
    "prometheus-operator": ["prometheusOperator.enabled=true"],
    "traces": ["traces.enabled=true"],
    "history": ["history.enabled=true"],
    "gateway": ["gateway.enabled=true"],
    "private-ca": ["privateCa.configMap=unslide-ca"],
    "msk": ["msk.enabled=true"],
    "pod-identity": ["podIdentity.enabled=true"],
}
# What the schema refuses, and what its answer names.
REFUSED = {
    "api.replica=3": "replica",
    "symbolizer.replicas=0": "replicas",
    "api.env.UNSLIDE_KAFKA__BOOTSTRAP=9092": "BOOTSTRAP",
    "secrets.database=": "database",
    "api.volumes.cache=6GB": "cache",
    "image.digest=latest": "digest",
    "api.pod.nodeSelecter.disk=ssd": "nodeSelecter",
}
HELM_LABELS = {"app.kubernetes.io/instance": "unslide", "app.kubernetes.io/managed-by": "Helm"}
problems = []


def run(*command):
    return subprocess.run(command, cwd=TOP, capture_output=True, text=True)


def objects(text):
    return [document for document in yaml.safe_load_all(text) if document]


def kustomize(folder):
    done = run("kustomize", "build", str(folder))
    if done.returncode:
        sys.exit(f"check-chart: {folder}: {done.stderr}")
    return objects(done.stdout)


def helm(name, *options, folder):
    """Returns the objects of the release and those of its hooks, and leaves all in a file."""
    done = run("helm", "template", "unslide", str(CHART), "--namespace", "unslide", *options)
    if done.returncode:
        sys.exit(f"check-chart: {name}: {done.stderr}")
    (folder / f"{name}.yaml").write_text(done.stdout)
    found = objects(done.stdout)
    return [o for o in found if not is_hook(o)], [o for o in found if is_hook(o)]


def is_hook(found):
    return "helm.sh/hook" in found["metadata"].get("annotations", {})


def without_helm(found):
    """Returns an object without the labels and annotations that only Helm adds, and with its variables and volumes in one order."""
    found = copy.deepcopy(found)
    metadata = found["metadata"]
    metadata.pop("namespace", None)
    for key, value in HELM_LABELS.items():
        if metadata.get("labels", {}).get(key) == value:
            del metadata["labels"][key]
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in metadata.pop(part, {}).items() if not key.startswith("helm.sh/")}
        # kustomize adds its label to the objects of the base, and none to those of components and overlays.
        kept.pop("app.kubernetes.io/part-of", None)
        if kept:
            metadata[part] = kept
    spec = found.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    pod = spec.get("template", {}).get("spec", {})
    for named in [pod.get("volumes", []), *(container["env"] for container in pod.get("containers", []))]:
        named.sort(key=lambda entry: entry["name"])
    return found


def compare(name, rendered, built):
    def keyed(found):
        return {(o["kind"], o["metadata"]["name"]): without_helm(o) for o in found}
    ours, wanted = keyed(rendered), keyed(built)
    for key in sorted(ours.keys() | wanted.keys()):
        texts = [yaml.safe_dump(found.get(key)).splitlines() for found in (wanted, ours)]
        lines = list(difflib.unified_diff(*texts, "kustomize", "helm", lineterm=""))
        if lines:
            problems.append("\n".join([f"{name}: {' '.join(key)} differs", *lines]))


def migration(hooks):
    """Returns the migration with the names that it has without Helm: a hook has a ServiceAccount and a ConfigMap of its own."""
    (name,) = [o["metadata"]["name"] for o in kustomize(KUBERNETES / "migrate") if o["kind"] == "ConfigMap"]
    names = {"unslide-migrate-config": name, "ServiceAccount": "unslide"}
    for found in hooks:
        if found["kind"] == "Job":
            pod = found["spec"]["template"]["spec"]
            pod["serviceAccountName"] = names["ServiceAccount"]
            for volume in pod["volumes"]:
                if volume.get("configMap", {}).get("name") in names:
                    volume["configMap"]["name"] = name
        else:
            found["metadata"]["name"] = names.get(found["kind"], name)
    return hooks


def main():
    folder = pathlib.Path(sys.argv[1])
    lint = run("helm", "lint", "--strict", "--quiet", str(CHART))
    if lint.returncode:
        problems.append(f"helm lint: {lint.stdout}{lint.stderr}")
    if set(COMPONENTS) != {path.name for path in (KUBERNETES / "components").iterdir()}:
        problems.append("a component has no values in the chart")
    release, hooks = helm("defaults", folder=folder)
    compare("defaults", release, kustomize(KUBERNETES / "base"))
    compare("the migration", migration(hooks), kustomize(KUBERNETES / "migrate"))
    for found in release:
        if found["metadata"]["labels"].get("app.kubernetes.io/part-of") != "unslide":
            problems.append(f"{found['kind']} {found['metadata']['name']} is no part of unslide")
    release, _ = helm("audit", "--set", "audit.enabled=true", folder=folder)
    audit = [o for o in kustomize(KUBERNETES / "audit") if o["kind"] == "CronJob"]
    compare("audit", [o for o in release if o["kind"] == "CronJob"], audit)
    # kustomize takes no absolute paths.
    with tempfile.TemporaryDirectory() as temporary:
        base = os.path.relpath(KUBERNETES, os.path.realpath(temporary))
        for component, values in COMPONENTS.items():
            kustomization = {"resources": [f"{base}/base"], "components": [f"{base}/components/{component}"]}
            (pathlib.Path(temporary) / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
            release, _ = helm(component, *[word for value in values for word in ("--set", value)], folder=folder)
            compare(component, release, kustomize(temporary))
    for example in sorted((TOP / "deploy/helm").glob("*.yaml")):
        release, hooks = helm(f"example-{example.stem}", "--values", str(example), folder=folder)
        compare(f"{example.name}", release, kustomize(KUBERNETES / "overlays" / example.stem))
        compare(f"the migration of {example.name}", migration(hooks), kustomize(KUBERNETES / "overlays" / example.stem / "migrate"))
    for value, name in REFUSED.items():
        done = run("helm", "template", "unslide", str(CHART), "--set", value)
        if done.returncode == 0 or name not in done.stderr:
            problems.append(f"the schema does not refuse {value}: {done.stderr}")
    for problem in problems:
        print(f"check-chart: {problem}", file=sys.stderr)
    print(f"check-chart: {len(problems)} problems")
    sys.exit(1 if problems else 0)


main()
