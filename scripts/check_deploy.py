"""What no schema sees in the deployment files: references among them, probes, limits, and that the
binary accepts the configuration they hand it. Run by scripts/check-deploy."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import yaml

TOP = pathlib.Path(__file__).resolve().parent.parent
KUBERNETES = TOP / "deploy/kubernetes"
SERVICES = {"api", "symbolizer", "builder", "indexer"}
# Who gets which Secret. The schema's owner is the migration's alone; symbolizers never reach the database.
SECRETS = {
    "api": {"unslide-database", "unslide-objects", "unslide-kafka", "unslide-api"},
    "builder": {"unslide-database", "unslide-objects", "unslide-kafka"},
    "indexer": {"unslide-database", "unslide-objects", "unslide-kafka"},
    "symbolizer": {"unslide-objects", "unslide-kafka"},
    "migrate": {"unslide-migrate", "unslide-kafka"},
}
problems = []


def expect(condition, message):
    if not condition:
        problems.append(message)


def documents(path):
    return [d for d in yaml.safe_load_all(path.read_text()) if d]


def text_of(folder):
    return "".join(p.read_text() for p in sorted((TOP / folder).rglob("*.rs")))


def check_kustomization(folder):
    spec = documents(folder / "kustomization.yaml")[0]
    named = list(spec.get("resources", [])) + [p["path"] for p in spec.get("patches", [])]
    named += [f for g in spec.get("configMapGenerator", []) for f in g["files"]]
    for name in named:
        expect((folder / name).exists(), f"{folder.relative_to(TOP)}: {name} does not exist")
    unnamed = {p.name for p in folder.glob("*.yaml")} - {"kustomization.yaml"} - set(named)
    expect(not unnamed, f"{folder.relative_to(TOP)}: not in kustomization.yaml: {sorted(unnamed)}")


def check_container(name, pod, container):
    """What holds for the migration as for the services."""
    given = {e["secretRef"]["name"] for e in container.get("envFrom", [])}
    given |= {e["valueFrom"]["secretKeyRef"]["name"] for e in container.get("env", []) if "secretKeyRef" in e.get("valueFrom", {})}
    expect(given == SECRETS[container["name"]], f"{name}: is given the secrets {sorted(given)}")
    expect(pod["securityContext"].get("runAsNonRoot"), f"{name}: may run as root")
    expect(pod.get("automountServiceAccountToken") is False, f"{name}: has a token of the cluster's api")
    own = container["securityContext"]
    closed = own.get("readOnlyRootFilesystem") and own.get("allowPrivilegeEscalation") is False
    expect(closed and own["capabilities"]["drop"] == ["ALL"], f"{name}: has more rights than it needs")


def size(text):
    number, unit = re.fullmatch(r"(\d+)([GM]i)", text).groups()
    return int(number) << {"Gi": 30, "Mi": 20}[unit]


def check_volumes(name, pod, container, config):
    """What the configuration lets a service write fits into the volume that it is written to."""
    volumes = {v["name"]: v for v in pod["volumes"]}
    download = config["symcaches"]["download_bytes"]
    builder = config["builder"]
    largest = 2 * config["api"]["limits"]["upload_bytes"] + builder["archive_bytes"]
    expect(largest <= builder["work_bytes"], f"the largest upload takes {largest >> 30} GiB of builder.work_bytes")
    wants = {
        "api": ("cache_dir", lambda own: own["cache_bytes"] + download),
        "symbolizer": ("cache_dir", lambda own: own["cache_bytes"] + download),
        "builder": ("work_dir", lambda own: own["work_bytes"]),
    }
    if container["name"] in wants:
        key, wanted = wants[container["name"]]
        own = config[container["name"]]
        mounts = [m for m in container["volumeMounts"] if own[key].startswith(m["mountPath"] + "/")]
        expect(len(mounts) == 1, f"{name}: {key} = {own[key]} lies in no volume")
        for mount in mounts:
            room = size(volumes[mount["name"]]["emptyDir"]["sizeLimit"])
            expect(wanted(own) <= room, f"{name}: {key} may grow to {wanted(own) >> 30} GiB, its volume to {room >> 30}")


def check_keda(scale):
    """KEDA's own types, from its npm package of models."""
    script = """
      import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
      new ScaledObject(JSON.parse(process.argv[1])).validate();
    """
    command = ["node", "--input-type=module", "-e", script, json.dumps(scale)]
    done = subprocess.run(command, cwd=os.environ["KEDA"], capture_output=True, text=True)
    expect(done.returncode == 0, f"KEDA's schema refuses the ScaledObject:\n{done.stderr}")


def check_manifests():
    folders = [KUBERNETES / name for name in ("shared", "migrate", "base")]
    paths = [p for folder in folders for p in sorted(folder.glob("*.yaml")) if p.name != "kustomization.yaml"]
    found = [d for p in paths for d in documents(p)]
    config = tomllib.loads((KUBERNETES / "shared/unslide.toml").read_text())
    workloads = {d["metadata"]["name"]: d for d in found if d["kind"] in ("Deployment", "StatefulSet")}
    expect(set(workloads) == {f"unslide-{s}" for s in SERVICES}, f"workloads are {sorted(workloads)}")
    budgets = {d["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] for d in found if d["kind"] == "PodDisruptionBudget"}
    expect(budgets == set(workloads), f"disruption budgets are for {sorted(budgets)}")
    for name, workload in workloads.items():
        pod = workload["spec"]["template"]["spec"]
        for container in pod["containers"]:
            check_container(name, pod, container)
            check_volumes(name, pod, container, config)
            ports = {p["name"] for p in container["ports"]}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                expect(container[probe]["httpGet"]["port"] in ports, f"{name}: {probe} asks a port that is not there")
            expect(container["livenessProbe"]["httpGet"]["path"] == "/livez", f"{name}: liveness must not ask dependencies")
            expect("memory" in container["resources"]["limits"], f"{name}: no memory limit")
            mounted = {m["name"] for m in container["volumeMounts"]}
            expect(mounted == {v["name"] for v in pod["volumes"]}, f"{name}: volumes and mounts differ")
            expect(container["args"][0] == name.removeprefix("unslide-"), f"{name}: runs {container['args']}")
    jobs = {d["metadata"]["name"]: d["spec"]["template"]["spec"] for d in found if d["kind"] == "Job"}
    expect(set(jobs) == {"unslide-migrate"}, f"jobs are {sorted(jobs)}")
    for name, pod in jobs.items():
        check_container(name, pod, pod["containers"][0])
    images = {json.dumps(documents(KUBERNETES / name / "kustomization.yaml")[0]["images"]) for name in ("base", "migrate")}
    expect(len(images) == 1, f"the migration and the services have different images: {sorted(images)}")
    scaled = [d for d in found if d["kind"] == "ScaledObject"]
    expect(len(scaled) == 1, "one ScaledObject is expected")
    for scale in scaled:
        if "KEDA" in os.environ:
            check_keda(scale)
        target = scale["spec"]["scaleTargetRef"]
        expect(workloads[target["name"]]["kind"] == target["kind"], f"scales {target}, which is not there")
        trigger = scale["spec"]["triggers"][0]
        expect(trigger["type"] == "kafka", "scaling is by consumer lag")
        keys = {"bootstrapServers", "consumerGroup", "topic", "lagThreshold"}
        expect(keys <= set(trigger["metadata"]), f"the trigger lacks {sorted(keys - set(trigger['metadata']))}")
        lanes = re.findall(r'pub const [A-Z]+: &str = "(\w+)"', (TOP / "crates/proto/src/lanes.rs").read_text())
        groups = {f"unslide.{lane}" for lane in lanes}
        expect(trigger["metadata"]["consumerGroup"] in groups, f"the symbolizer's groups are {sorted(groups)}")
        expect(f'"{trigger["metadata"]["topic"]}"' in text_of("crates/proto"), "scales by a topic that is not there")


def check_compose():
    spec = yaml.safe_load((TOP / "docker-compose.yml").read_text())
    for name, service in spec["services"].items():
        expect(":latest" not in service["image"] and ":" in service["image"], f"compose: {name} has no pinned image")
        for other in service.get("depends_on", {}):
            expect(other in spec["services"], f"compose: {name} depends on {other}, which is not there")
    expect(SERVICES <= set(spec["services"]), "compose: a service is missing")
    for name in SERVICES & set(spec["services"]):
        given = str(spec["services"][name]["environment"])
        expect("OWNER" not in given and "ROOT" not in given, f"compose: {name} has the password of an owner")
    return {name: spec["services"][name] for name in sorted(SERVICES | {"migrate"})}


def run_config_check(binary, what, environment, arguments):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("UNSLIDE_")}
    done = subprocess.run([binary, "config", "check", *arguments], env=clean | environment, capture_output=True, text=True)
    expect(done.returncode == 0, f"{what}: `unslide config check` says:\n{done.stdout}{done.stderr}")


def check_alerts():
    """Metrics in the alert rules are declared by a service."""
    text = (TOP / "deploy/observability/alerts.yaml").read_text()
    sources = text_of("services")
    for metric in sorted(set(re.findall(r"unslide_[a-z_]+", text))):
        own = metric.removeprefix("unslide_").split("_", 1)[1]
        expect(metric in sources or f'"{own}"' in sources, f"alerts: no service declares {metric}")


def substitute(value):
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))


for kustomization in sorted(KUBERNETES.rglob("kustomization.yaml")):
    check_kustomization(kustomization.parent)
check_manifests()
check_alerts()
compose = check_compose()
if binary := os.environ.get("UNSLIDE_BIN"):
    for name, service in compose.items():
        run_config_check(binary, f"compose: {name}", {k: substitute(v) for k, v in service["environment"].items()}, [])
    credentials = {"UNSLIDE_POSTGRES__URL": "postgres://unslide_service:secret@postgres/unslide"}
    run_config_check(binary, "kubernetes", credentials, ["--config", str(KUBERNETES / "shared/unslide.toml")])
else:
    print("check-deploy: UNSLIDE_BIN is not set: the configurations are not handed to the binary")
for problem in problems:
    print(f"check-deploy: {problem}", file=sys.stderr)
print(f"check-deploy: {len(problems)} problems")
sys.exit(1 if problems else 0)
