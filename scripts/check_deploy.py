"""What no schema sees in the deployment files: references among them, probes, limits, and that the
binary accepts the configuration they hand it. Run by scripts/check-deploy."""

import os
import pathlib
import re
import subprocess
import sys

import yaml

TOP = pathlib.Path(__file__).resolve().parent.parent
SERVICES = {"api", "symbolizer", "builder", "indexer"}
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


def check_manifests(base):
    found = [d for p in sorted(base.glob("*.yaml")) if p.name != "kustomization.yaml" for d in documents(p)]
    workloads = {d["metadata"]["name"]: d for d in found if d["kind"] in ("Deployment", "StatefulSet")}
    expect(set(workloads) == {f"unslide-{s}" for s in SERVICES}, f"workloads are {sorted(workloads)}")
    budgets = {d["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] for d in found if d["kind"] == "PodDisruptionBudget"}
    expect(budgets == set(workloads), f"disruption budgets are for {sorted(budgets)}")
    for name, workload in workloads.items():
        pod = workload["spec"]["template"]["spec"]
        for container in pod["containers"]:
            ports = {p["name"] for p in container["ports"]}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                expect(container[probe]["httpGet"]["port"] in ports, f"{name}: {probe} asks a port that is not there")
            expect(container["livenessProbe"]["httpGet"]["path"] == "/livez", f"{name}: liveness must not ask dependencies")
            expect("memory" in container["resources"]["limits"], f"{name}: no memory limit")
            mounted = {m["name"] for m in container["volumeMounts"]}
            expect(mounted == {v["name"] for v in pod["volumes"]}, f"{name}: volumes and mounts differ")
            expect(container["args"][0] == name.removeprefix("unslide-"), f"{name}: runs {container['args']}")
    expect(any(d["kind"] == "Job" and d["metadata"]["name"] == "unslide-migrate" for d in found), "no migration job")
    scaled = [d for d in found if d["kind"] == "ScaledObject"]
    expect(len(scaled) == 1, "one ScaledObject is expected")
    for scale in scaled:
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


for kustomization in sorted((TOP / "deploy/kubernetes").rglob("kustomization.yaml")):
    check_kustomization(kustomization.parent)
check_manifests(TOP / "deploy/kubernetes/base")
check_alerts()
compose = check_compose()
if binary := os.environ.get("UNSLIDE_BIN"):
    for name, service in compose.items():
        run_config_check(binary, f"compose: {name}", {k: substitute(v) for k, v in service["environment"].items()}, [])
    credentials = {"UNSLIDE_POSTGRES__URL": "postgres://unslide_service:secret@postgres/unslide"}
    run_config_check(binary, "kubernetes", credentials, ["--config", str(TOP / "deploy/kubernetes/base/unslide.toml")])
else:
    print("check-deploy: UNSLIDE_BIN is not set: the configurations are not handed to the binary")
for problem in problems:
    print(f"check-deploy: {problem}", file=sys.stderr)
print(f"check-deploy: {len(problems)} problems")
sys.exit(1 if problems else 0)
