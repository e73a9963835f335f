"""What no schema sees in the deployment files: references among them, probes, limits, and that the
binary accepts the configuration they hand it; and what the documents say of the same. Run by scripts/check-deploy."""

import hashlib
import ipaddress
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from xml.etree import ElementTree

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
    "audit": {"unslide-kafka"},
}
# A login to Kafka for each, so that its ACLs can be as narrow as SECURITY.md says.
for service, secrets in SECRETS.items():
    secrets.add(f"unslide-kafka-{service}")
# Beside those, in a cell of several.
CELL_SECRETS = {"api": {"unslide-directory"}}
DOOR_SECRETS = {"unslide-directory"}
# The npm packages with the models of operators' types.
OPERATORS = {"keda.sh": "keda", "monitoring.coreos.com": "prometheus-operator", "gateway.networking.k8s.io": "gateway-api"}
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
    named = list(spec.get("resources", [])) + spec.get("components", []) + [p["path"] for p in spec.get("patches", []) if "path" in p]
    named += [f for g in spec.get("configMapGenerator", []) for f in g.get("files", [])]
    for name in named:
        expect((folder / name).exists(), f"{folder.relative_to(TOP)}: {name} does not exist")
    unnamed = {p.name for p in folder.glob("*.yaml")} - {"kustomization.yaml"} - set(named)
    expect(not unnamed, f"{folder.relative_to(TOP)}: not in kustomization.yaml: {sorted(unnamed)}")


def check_container(name, pod, container, is_cell=False):
    """What holds for the migration as for the services."""
    sources = [e["secretRef"]["name"] for e in container.get("envFrom", []) if "secretRef" in e]
    own_login = f"unslide-kafka-{container['name']}"
    expect(own_login in sources[sources.index("unslide-kafka") :], f"{name}: what all share wins over its own login")
    given = set(sources)
    given |= {e["valueFrom"]["secretKeyRef"]["name"] for e in container.get("env", []) if "secretKeyRef" in e.get("valueFrom", {})}
    wanted = SECRETS[container["name"]] | (CELL_SECRETS.get(container["name"], set()) if is_cell else set())
    expect(given == wanted, f"{name}: is given the secrets {sorted(given)}")
    check_rights(name, pod, container)
    # By the environment, which a command that is run in the pod has as well.
    config = [pathlib.Path(e["value"]) for e in container.get("env", []) if e["name"] == "UNSLIDE_CONFIG"]
    mounts = [pathlib.Path(m["mountPath"]) for m in container["volumeMounts"] if m["name"] == "config"]
    there = [path.parent for path in config] == mounts and all((KUBERNETES / "shared" / path.name).exists() for path in config)
    expect(config and there, f"{name}: UNSLIDE_CONFIG does not name the file of the ConfigMap")
    expect("--config" not in container["args"], f"{name}: commands that are run in the pod do not see --config")


def check_rights(name, pod, container):
    """No process has more rights than it needs."""
    expect(pod["securityContext"].get("runAsNonRoot"), f"{name}: may run as root")
    expect(pod.get("automountServiceAccountToken") is False, f"{name}: has a token of the cluster's api")
    own = container["securityContext"]
    closed = own.get("readOnlyRootFilesystem") and own.get("allowPrivilegeEscalation") is False
    expect(closed and own["capabilities"]["drop"] == ["ALL"], f"{name}: has more rights than it needs")


def size(text):
    """Bytes of a size as Kubernetes writes it, or as a setting does."""
    number, unit = re.fullmatch(r"(\d+)([GM]i)B?", text).groups()
    return int(number) << {"Gi": 30, "Mi": 20}[unit]


def check_volumes(name, pod, container, config):
    """What the configuration lets a service write fits into the volume that it is written to."""
    volumes = {v["name"]: v for v in pod["volumes"]}
    download = size(config["symcaches"]["download_size"])
    builder = config["builder"]
    largest = 2 * size(config["tenants"]["upload_size"]) + size(builder["archive_size"])
    room = size(builder["work_size"])
    expect(largest <= room, f"the largest upload takes {largest >> 30} GiB of builder.work_size")
    children = (builder["uploads"] + 3) * size(builder.get("build_memory", "1GiB"))
    if container["name"] == "builder":
        memory = size(container["resources"]["limits"]["memory"])
        expect(children < memory, f"{name}: child processes may take {children >> 30} of {memory >> 30} GiB of memory")
    disks = sum(size(v["emptyDir"]["sizeLimit"]) for v in volumes.values() if "emptyDir" in v)
    asked = container["resources"]["requests"].get("ephemeral-storage", "0Gi")
    expect(size(asked) == disks, f"{name}: asks for {asked} of the node's disk, its volumes are {disks >> 30} GiB")
    wants = {
        # And files that wait for their key: MAX_SPOOL_BYTES.
        "api": lambda own: size(own["cache_size"]) + download + (2 << 30),
        "symbolizer": lambda own: size(own["cache_size"]) + download,
        "builder": lambda own: size(own["work_size"]),
    }
    if container["name"] in wants:
        most, folder = wants[container["name"]](config[container["name"]]), config["process"]["data_dir"]
        mounts = [m for m in container["volumeMounts"] if m["mountPath"] == folder]
        expect(len(mounts) == 1, f"{name}: process.data_dir = {folder} is no volume")
        for mount in mounts:
            room = size(volumes[mount["name"]]["emptyDir"]["sizeLimit"])
            expect(most <= room, f"{name}: {folder} may grow to {most >> 30} GiB, its volume to {room >> 30}")
            expect(room < 2 * most, f"{name}: {folder} uses {most >> 30} of {room >> 30} GiB that its volume has")


def check_type(document):
    """Types that Kubernetes has not by itself, from npm packages of their models."""
    version, kind = document["apiVersion"], document["kind"]
    module = f"@kubernetes-models/{OPERATORS[version.split('/')[0]]}/{version}/{kind}"
    script = f"""
      import {{ {kind} }} from "{module}";
      new {kind}(JSON.parse(process.argv[1])).validate();
    """
    command = ["node", "--input-type=module", "-e", script, json.dumps(document)]
    done = subprocess.run(command, cwd=os.environ["MODELS"], capture_output=True, text=True)
    expect(done.returncode == 0, f"the schema refuses the {kind}:\n{done.stderr}")


def drain_seconds(config):
    """What `process.drain` is."""
    boot = (TOP / "unslide/src/boot.rs").read_text()
    usual = re.search(r"ProcessSettings \{.* drain_seconds: (\d+) \}", boot)[1]
    return int(config.get("process", {}).get("drain", usual + "s").removesuffix("s"))


def stop_delay_seconds(config):
    """What `api.stop_delay` is."""
    usual = re.search(r"stop_delay_seconds: (\d+),", (TOP / "services/api/src/config.rs").read_text())[1]
    return int(config.get("api", {}).get("stop_delay", usual + "s").removesuffix("s"))


def configured(config, container):
    """The configuration with what the container's environment says instead."""
    own = {section: dict(keys) for section, keys in config.items()}
    for entry in container.get("env", []):
        name = re.fullmatch(r"UNSLIDE_([A-Z]+)__([A-Z_]+)", entry["name"])
        if name and "value" in entry:
            value = entry["value"]
            own.setdefault(name[1].lower(), {})[name[2].lower()] = int(value) if value.isdigit() else value
    return own


def check_stop(name, pod, container, config, serves):
    """A pod that serves goes on until its endpoint is withdrawn everywhere, and nobody is killed while it drains."""
    pause = stop_delay_seconds(config) if serves else 0
    drain, grace = drain_seconds(config), pod["terminationGracePeriodSeconds"]
    expect(pause >= 5 or not serves, f"{name}: closes its listener while its endpoint is still in use")
    expect(pause + drain < grace, f"{name}: stops in {pause} s and {drain} s, but is killed after {grace} s")


def check_proxies(name, config):
    """Clients behind an ingress count by their own addresses."""
    expect("public_url" in config["api"], f"{name}: alerts and mails link to nothing")
    networks = config["api"].get("trusted_proxies", [])
    networks = json.loads(networks) if isinstance(networks, str) else networks
    expect(networks, f"{name}: the ingress is no trusted proxy, so all clients count as one address")
    for network in networks:
        expect(ipaddress.ip_network(network).prefixlen > 0, f"{name}: every client is a trusted proxy")


def check_routes(found):
    """What comes from outside goes to a port that a Service has."""
    ports = {(d["metadata"]["name"], key) for d in found if d["kind"] == "Service" for p in d["spec"]["ports"] for key in (p["port"], p["name"])}
    backends = []
    for document in found:
        if document["kind"] == "HTTPRoute":
            backends += [(b["name"], b["port"]) for rule in document["spec"]["rules"] for b in rule.get("backendRefs", [{"name": "", "port": 0}])]
        if document["kind"] == "Ingress":
            services = [path["backend"]["service"] for rule in document["spec"]["rules"] for path in rule["http"]["paths"]]
            backends += [(s["name"], s["port"].get("name", s["port"].get("number"))) for s in services]
    for backend in backends:
        expect(backend in ports, f"a route goes to {backend}, which no Service has")


def check_scale_down(behavior):
    """A worker that goes hands work to others: only a few may go at once, and not at the first lull."""
    down = behavior["scaleDown"]
    slow = all(p["type"] == "Pods" and p["value"] / p["periodSeconds"] <= 3 / 60 for p in down.get("policies", []))
    expect(down.get("policies") and slow, "too many pods go at once")
    expect(down["stabilizationWindowSeconds"] >= 300, "pods go at the first lull")


def check_workloads(found, config, is_cell=False):
    """What holds in the base, in each overlay and in each cell."""
    workloads = {d["metadata"]["name"]: d for d in found if d["kind"] in ("Deployment", "StatefulSet")}
    services = [d["spec"] for d in found if d["kind"] == "Service"]
    served = [s["selector"]["app.kubernetes.io/name"] for s in services if s.get("clusterIP") != "None"]
    expect(served == ["unslide-api"], f"services are for {served}")
    for name, workload in workloads.items():
        pod = workload["spec"]["template"]["spec"]
        spread = {c["topologyKey"] for c in pod["topologySpreadConstraints"]}
        expect(spread == {"topology.kubernetes.io/zone", "kubernetes.io/hostname"}, f"{name}: spreads over {sorted(spread)}")
        for container in pod["containers"]:
            own = configured(config, container)
            check_container(name, pod, container, is_cell)
            check_volumes(name, pod, container, own)
            check_stop(name, pod, container, own, name in served)
            if name in served and (is_cell or any(d["kind"] in ("Ingress", "HTTPRoute") for d in found)):
                check_proxies(name, own)
    logins = {d["metadata"]["name"]: d["spec"] for d in found if d["kind"] == "TriggerAuthentication"}
    for name, spec in logins.items():
        given = {secret["parameter"] for secret in spec.get("secretTargetRef", [])}
        expect({"sasl", "username", "password"} <= given, f"the login {name} gives only {sorted(given)}")
    check_routes(found)
    for budget in [d["spec"] for d in found if d["kind"] == "PodDisruptionBudget"]:
        expect(budget.get("unhealthyPodEvictionPolicy") == "AlwaysAllow", "a pod that is not ready keeps a node from being drained")
    scaled = [d for d in found if d["kind"] == "ScaledObject"]
    expect(len(scaled) <= 1, "two ScaledObjects")
    (autoscaler,) = [d["spec"] for d in found if d["kind"] == "HorizontalPodAutoscaler"]
    check_scale_down(autoscaler["behavior"])
    counted = {autoscaler["scaleTargetRef"]["name"], *(s["spec"]["scaleTargetRef"]["name"] for s in scaled)}
    for name, workload in workloads.items():
        expect(name not in counted or "replicas" not in workload["spec"], f"{name}: each apply undoes the scaling")
        expect(name in counted or workload["spec"].get("replicas", 0) > 0, f"{name}: nobody says how many")
    for document in found:
        if "MODELS" in os.environ and document["apiVersion"].split("/")[0] in OPERATORS:
            check_type(document)
    for scale in scaled:
        target = scale["spec"]["scaleTargetRef"]
        expect(workloads[target["name"]]["kind"] == target["kind"], f"scales {target}, which is not there")
        check_scale_down(scale["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"])
        expect("cooldownPeriod" not in scale["spec"], "cooldownPeriod counts only for scaling to zero")
        partitions = re.search(r"`kafka.partitions.input` \| `(\d+)`", (TOP / "docs/settings.md").read_text())[1]
        partitions = config["kafka"].get("partitions", {}).get("input", int(partitions))
        expect(scale["spec"]["maxReplicaCount"] <= partitions, f"more workers than the {partitions} partitions would idle")
        for trigger in scale["spec"]["triggers"]:
            servers = trigger["metadata"]["bootstrapServers"].split(",")
            for server in servers:
                expect("." in server, f"the trigger's {server} is looked for in KEDA's namespace")
            login = trigger.get("authenticationRef", {}).get("name")
            expect(login is None or login in logins, f"the trigger's login {login} is not there")


def check_secrets():
    """The example has the Secrets that the manifests name, and nothing that anybody else has."""
    example = {d["metadata"]["name"] for d in documents(KUBERNETES / "secrets.example.yaml")}
    wanted = set().union(DOOR_SECRETS, *SECRETS.values()) - {"unslide-api"}
    expect(example == wanted, f"secrets.example.yaml: has {sorted(example)}, wanted are {sorted(wanted)}")


def check_egress(policies):
    """Who reaches the database: all but symbolizers, which have no login to it. Whom a component lets out is no stranger."""
    reach = set()
    for policy in policies:
        ports = {p["port"] for rule in policy["spec"].get("egress", []) for p in rule["ports"]}
        if 5432 in ports:
            reach |= set(policy["spec"]["podSelector"]["matchExpressions"][0]["values"])
    everybody = {f"unslide-{s}" for s in SERVICES | {"migrate", "audit"}}
    for path in sorted((KUBERNETES / "components").rglob("networkpolicy.yaml")):
        for policy in documents(path):
            (selected,) = policy["spec"]["podSelector"]["matchExpressions"]
            expect(set(selected["values"]) <= everybody and policy["spec"]["policyTypes"] == ["Egress"], f"{path.parent.name}: {selected}")
    expect(reach == everybody - {"unslide-symbolizer", "unslide-audit"}, f"networkpolicy: {sorted(reach)} reach PostgreSQL")


def check_overlays():
    """The same of what kustomize makes of the overlays."""
    if not shutil.which("kustomize"):
        return
    for folder in sorted((KUBERNETES / "overlays").iterdir()):
        before = len(problems)
        found = rendered(folder)
        if any(d["metadata"]["name"] == "unslide-door" for d in found):
            check_cells(found, rendered(folder / "migrate"))
            problems[before:] = [f"overlays/{folder.name}: {problem}" for problem in problems[before:]]
            continue
        (config,) = [d["data"]["unslide.toml"] for d in found if d["kind"] == "ConfigMap"]
        check_workloads(found, tomllib.loads(config))
        migration = {(d["kind"], d["metadata"]["name"]): d for d in rendered(folder / "migrate")}
        for document in found:
            same = migration.get((document["kind"], document["metadata"]["name"]), document)
            expect(same == document, f"the migration and the services undo each other's {document['kind']}")
        problems[before:] = [f"overlays/{folder.name}: {problem}" for problem in problems[before:]]


def check_cells(found, migration):
    """Each cell is a whole installation under a name of its own. Nothing reaches the PostgreSQL of another, and only the door its api."""
    spaces = {}
    for document in [*found, *migration]:
        spaces.setdefault(document["metadata"]["namespace"], []).append(document)
    (door,) = [d["metadata"]["namespace"] for d in found if d["kind"] == "Deployment" and d["metadata"]["name"] == "unslide-door"]
    check_door(spaces[door])
    cells = {name: documents for name, documents in spaces.items() if name != door}
    expect(len(cells) > 1, "one cell needs no door")
    own = {name: check_cell(name, documents, door) for name, documents in cells.items()}
    for setting in zip(*own.values()):
        expect(len(set(setting)) == len(setting), f"two cells have the same: {setting}")
    (policy,) = [d["spec"] for d in spaces[door] if d["kind"] == "NetworkPolicy" and d["metadata"]["name"] == "unslide-door"]
    targets = [to for rule in policy["egress"] for to in rule.get("to", []) if "namespaceSelector" in to]
    reached = [v for to in targets for e in to["namespaceSelector"].get("matchExpressions", []) for v in e["values"]]
    expect(sorted(reached) == sorted(cells), f"the door reaches {reached}")
    apis = all(to["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "unslide-api"} for to in targets)
    expect(apis, "the door reaches more of a cell than its api")
    rules = [d["metadata"]["namespace"] for d in found if d["kind"] == "PrometheusRule"]
    expect(rules == [door], f"the alert rules are in {rules}: each alert would be sent as often")


def check_cell(name, documents, door):
    """Returns what no other cell may have."""
    before = len(problems)
    job = [d for d in documents if d["kind"] == "Job"]
    config_maps = {json.dumps(d["data"], sort_keys=True): d["data"] for d in documents if d["kind"] == "ConfigMap"}
    (config,) = [data["unslide.toml"] for data in config_maps.values() if "unslide.toml" in data]
    (own,) = [data for data in config_maps.values() if "UNSLIDE_KAFKA__TOPIC_PREFIX" in data]
    (named,) = {d["metadata"]["name"] for d in documents if d["kind"] == "ConfigMap" and d["data"] == own}
    check_workloads([d for d in documents if d["kind"] != "Job"], tomllib.loads(config), is_cell=True)
    for workload in [*job, *(d for d in documents if d["kind"] in ("Deployment", "StatefulSet"))]:
        container = workload["spec"]["template"]["spec"]["containers"][0]
        given = [e["configMapRef"]["name"] for e in container["envFrom"] if "configMapRef" in e]
        expect(given == [named], f"{workload['metadata']['name']}: is not told the topics of its cell")
    # Settings with a cell's name and no directory are refused, and only the api has the directory's login.
    containers = [c for d in documents if d["kind"] in ("Deployment", "StatefulSet", "Job") for c in d["spec"]["template"]["spec"]["containers"]]
    names = {c["name"]: e["value"] for c in containers for e in c.get("env", []) if e["name"] == "UNSLIDE_CELLS__NAME"}
    expect(set(names) == {"api"}, f"the cell's name is told to {sorted(names)}")
    policies = {d["metadata"]["name"]: d["spec"] for d in documents if d["kind"] == "NetworkPolicy"}
    (rule,) = policies["unslide-api"]["ingress"]
    (origin,) = rule.get("from", [{}])
    allowed = origin.get("namespaceSelector", {}).get("matchLabels", {}).get("kubernetes.io/metadata.name") == door
    allowed = allowed and origin["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "unslide-door"}
    expect(allowed, "others than the door reach the api")
    (rule,) = policies["unslide-database"]["egress"]
    networks = tuple(to["ipBlock"]["cidr"] for to in rule.get("to", []))
    expect(networks, "every PostgreSQL can be reached")
    prefix = own["UNSLIDE_KAFKA__TOPIC_PREFIX"]
    for trigger in [t["metadata"] for d in documents if d["kind"] == "ScaledObject" for t in d["spec"]["triggers"]]:
        scaled = trigger["topic"] == f"{prefix}crash.reports" and trigger["consumerGroup"] == f"{prefix}unslide.live"
        expect(scaled, f"KEDA counts the lag of {trigger['topic']}")
    endpoints = [e for d in documents if d["kind"] == "PodMonitor" for e in d["spec"]["podMetricsEndpoints"]]
    labels = [r.get("replacement") for e in endpoints for r in e.get("relabelings", []) if r.get("targetLabel") == "cell"]
    expect(labels == [names.get("api")], f"metrics have the cell {labels}")
    problems[before:] = [f"{name}: {problem}" for problem in problems[before:]]
    return names.get("api"), prefix, own["UNSLIDE_OBJECTS__BUCKET"], networks


def check_door(documents):
    """The door has the directory's login and no other, and what comes from outside goes to it."""
    (workload,) = [d for d in documents if d["kind"] == "Deployment"]
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    given = {e["secretRef"]["name"] for e in container["envFrom"]}
    expect(given == DOOR_SECRETS, f"the door is given {sorted(given)}")
    check_rights("unslide-door", pod, container)
    check_routes([d for d in documents if d["kind"] != "Job"])
    expect(any(d["kind"] in ("Ingress", "HTTPRoute") for d in documents), "no route goes to the door")
    expect("memory" in container["resources"]["limits"], "the door has no memory limit")
    expect(container["livenessProbe"]["httpGet"]["path"] == "/livez", "the door's liveness must not ask dependencies")
    (policy,) = [d["spec"] for d in documents if d["kind"] == "NetworkPolicy" and d["metadata"]["name"] == "unslide-door"]
    ports = {p["port"] for rule in policy["egress"] for p in rule["ports"]}
    expect(ports == {53, 8080, 5432}, f"the door reaches the ports {sorted(ports)}")
    for document in documents:
        if "MODELS" in os.environ and document["apiVersion"].split("/")[0] in OPERATORS:
            check_type(document)


def rendered(folder):
    command = ["kustomize", "build", str(folder)]
    return list(yaml.safe_load_all(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def check_manifests():
    folders = [KUBERNETES / name for name in ("shared", "migrate", "audit", "base")]
    allowed = {"apps/v1", "autoscaling/v2", "batch/v1", "networking.k8s.io/v1", "policy/v1", "v1"}
    paths = [p for folder in folders for p in sorted(folder.glob("*.yaml")) if p.name != "kustomization.yaml"]
    found = [d for p in paths for d in documents(p)]
    needed = {d["apiVersion"] for d in found} - allowed
    expect(not needed, f"a cluster without an operator does not know {sorted(needed)}: they belong into a component")
    config = tomllib.loads((KUBERNETES / "shared/unslide.toml").read_text())
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
    jobs = {d["metadata"]["name"]: d["spec"]["template"]["spec"] for d in found if d["kind"] == "Job"}
    jobs |= {d["metadata"]["name"]: d["spec"]["jobTemplate"]["spec"]["template"]["spec"] for d in found if d["kind"] == "CronJob"}
    expect(set(jobs) == {"unslide-migrate", "unslide-audit"}, f"jobs are {sorted(jobs)}")
    for name, pod in jobs.items():
        check_container(name, pod, pod["containers"][0])
    images = {json.dumps(documents(KUBERNETES / name / "kustomization.yaml")[0]["images"]) for name in ("base", "migrate", "audit", "door")}
    expect(len(images) == 1, f"the migration and the services have different images: {sorted(images)}")
    check_workloads(found, config)
    for scale in documents(KUBERNETES / "components/keda/scaledobject.yaml"):
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
    kafka = spec["services"]["kafka"]
    mounts = [volume.split(":")[1] for volume in kafka["volumes"]]
    for folder in kafka["environment"].get("KAFKA_LOG_DIRS", "/tmp/kafka-logs").split(","):
        kept = any(pathlib.PurePosixPath(folder).is_relative_to(mount) for mount in mounts)
        expect(kept, f"compose: Kafka writes to {folder}, which goes with its container")
    image = (TOP / "deploy/docker/Dockerfile").read_text()
    volumes = re.findall(r"^VOLUME (\S+)$", image, re.M)
    for name in sorted(SERVICES | {"migrate"}):
        service, own = spec["services"][name], spec["services"][name]["environment"]
        given = "UNSLIDE_POSTGRES__URL" in own
        wanted = any("database" in secret or "migrate" in secret for secret in SECRETS[name])
        expect(given == wanted, f"compose: {name} {'has' if given else 'lacks'} a login to the database")
        closed = service.get("read_only") and service.get("cap_drop") == ["ALL"] and not service.get("cap_add")
        closed = closed and service.get("security_opt") == ["no-new-privileges:true"]
        expect(closed, f"compose: {name} has more rights than it needs")
        places = [own["UNSLIDE_PROCESS__DATA_DIR"]] if name in SERVICES else []
        writable = volumes + service.get("tmpfs", [])
        for place in places:
            kept = any(pathlib.PurePosixPath(place).is_relative_to(folder) for folder in writable)
            expect(kept, f"compose: {name} cannot write to {place}")
        asks = service.get("healthcheck", {})
        healthy = asks.get("disable") if name == "migrate" else asks.get("test") == ["CMD", "unslide", "health"]
        expect(healthy, f"compose: {name} has no health check, so that --wait would not wait for it")
        grace = int(service["stop_grace_period"].removesuffix("s"))
        drain = int(own.get("UNSLIDE_PROCESS__DRAIN", f"{drain_seconds({})}s").removesuffix("s"))
        expect(drain < grace, f"compose: {name} drains for {drain} s, but is killed after {grace} s")
    for name in SERVICES & set(spec["services"]):
        given = str(spec["services"][name]["environment"])
        expect("OWNER" not in given and "ROOT" not in given, f"compose: {name} has the password of an owner")
    for name, config in spec["configs"].items():
        expect("file" not in config or (TOP / config["file"]).exists(), f"compose: {name} is a file that is not there")
    return {name: spec["services"][name] for name in sorted(SERVICES | {"migrate"})}


def check_clickhouse(compose):
    """The servers of ClickHouse: each is in the cluster once, writes to one replica of a shard, and has macros of its own."""
    folder = TOP / "deploy/clickhouse"
    spec = yaml.safe_load((folder / "compose.yaml").read_text())
    for config in spec["configs"].values():
        expect((TOP / config["file"]).exists(), f"clickhouse: {config['file']} does not exist")
    for name, service in spec["services"].items():
        expect(name in compose or ":" in service["image"].replace(":latest", ""), f"clickhouse: {name} has no pinned image")
    servers = {name: one["environment"] for name, one in spec["services"].items() if "SHARD" in one.get("environment", {})}
    cluster = ElementTree.parse(folder / "cluster.xml").getroot().find("remote_servers/unslide")
    for number, shard in enumerate(cluster.iter("shard"), 1):
        expect(shard.findtext("internal_replication") == "true", f"clickhouse: shard {number} stores each row twice")
        hosts = [host.text for host in shard.iter("host")]
        own = [name for name, environment in servers.items() if environment["SHARD"] == str(number)]
        expect(len(hosts) == 2 and hosts == own, f"clickhouse: shard {number} has {hosts}, by their variables {own}")
    expect(len({(e["SHARD"], e["REPLICA"]) for e in servers.values()}) == len(servers) == 4, "clickhouse: two servers have the same macros")
    for name in sorted(compose):
        given = "UNSLIDE_HISTORY__URL" in spec["services"].get(name, {}).get("environment", {})
        expect(given == (name != "symbolizer"), f"clickhouse: {name} {'has' if given else 'lacks'} its address")


def check_bake():
    """The bake file builds the Dockerfile for both architectures, with arguments that it has, and the version of the program."""
    spec = json.loads((TOP / "deploy/docker/bake.json").read_text())
    expect(set(spec) <= {"variable", "group", "target", "function"}, f"bake: {sorted(spec)}")
    image = spec["target"]["image"]
    dockerfile = (TOP / image["dockerfile"]).read_text()
    expect(sorted(image["platforms"]) == ["linux/amd64", "linux/arm64"], f"bake: builds for {image['platforms']}")
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile, re.M))
    expect(image["args"] == {name: defaults.get(name) for name in image["args"]}, f"bake: the arguments are not those of the Dockerfile: {defaults}")
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", dockerfile, re.M))
    for name, target in spec["target"].items():
        expect(target.get("target") in stages | {None}, f"bake: {name} builds a stage that is not there")
        for parent in target.get("inherits", []):
            expect(parent in spec["target"], f"bake: {name} inherits {parent}, which is not there")
    used = set(re.findall(r"\$\{(\w+)\}", json.dumps(spec["target"])))
    expect(used == set(spec["variable"]), f"bake: variables and their uses differ by {sorted(used ^ set(spec['variable']))}")
    version = tomllib.loads((TOP / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    expect(spec["variable"]["VERSION"]["default"] == version, f"bake: the version is not {version}")
    # Docker without the plugin takes it for an option of its own.
    is_there = lambda tool: shutil.which(tool[0]) and subprocess.run([*tool, "version"], capture_output=True).returncode == 0
    if tool := next(filter(is_there, (["docker", "buildx"], ["buildx"])), None):
        command = [*tool, "bake", "--file", "deploy/docker/bake.json", "--print"]
        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
        expect(done.returncode == 0, f"bake: {done.stderr}")


def run_config_check(binary, what, environment, arguments):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("UNSLIDE_", "OTEL_"))}
    done = subprocess.run([binary, "config", "check", *arguments], env=clean | environment, capture_output=True, text=True)
    expect(done.returncode == 0, f"{what}: `unslide config check` says:\n{done.stdout}{done.stderr}")


def check_metrics():
    """What services register, the table of monitoring.md, and what a dashboard or an alert uses, are the same metrics."""
    named = r"unslide_(?:api|build_info|builder|cpu|door|memory|indexer|objects_requests|postgres|probe|producer|ready|symbolizer|symcaches|tenant_(?:deferred|reports|symbol)|trace)[a-z_]*"
    registrations = rf'"({named})",\s*(?:help: )?"|const [A-Z_]*METRIC: &str = "({named})";'
    sources = text_of("services") + text_of("crates") + text_of("features")
    registered = {name or constant for name, constant in re.findall(registrations, sources)}
    table = set(re.findall(rf"^\| `({named})` \|", (TOP / "docs/monitoring.md").read_text(), re.M))
    expect(table == registered, f"monitoring: the table of metrics and the sources differ by {sorted(table ^ registered)}")
    folder = TOP / "deploy/observability"
    text = (folder / "alerts.yaml").read_text() + (folder / "dashboard.json").read_text()
    used = {re.sub(r"(_seconds)_(bucket|sum|count)$", r"\1", name) for name in re.findall(named, text)}
    expect(used == registered, f"alerts and dashboard: they and the sources differ by {sorted(used ^ registered)}")


def check_dashboard():
    """The dashboard begins with what an operator looks for first; panels have ids and places of their own."""
    panels = json.loads((TOP / "deploy/observability/dashboard.json").read_text())["panels"]
    expect(len({p["id"] for p in panels}) == len(panels), "dashboard: two panels have one id")
    cells = [(x, y) for p in panels for g in [p["gridPos"]] for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    expect(len(cells) == len(set(cells)), "dashboard: panels overlap")
    first = [[t["expr"] for t in p["targets"]] for p in panels if p["type"] != "row"][:6]
    wanted = ["symbolizer_lag_records", "symbolizer_outcomes_total", "symbolizer_latency_seconds", "symbolizer_transactions_total"]
    for name, asked in zip([*wanted, "symbolizer_breaker_open", "probe_ok"], first, strict=True):
        expect(any(f"unslide_{name}" in expr for expr in asked), f"dashboard: its first panels lack unslide_{name}")
    recorded = {r["record"] for g in documents(TOP / "deploy/observability/alerts.yaml")[0]["groups"] for r in g["rules"] if "record" in r}
    used = {name for p in panels for t in p.get("targets", []) for name in re.findall(r"unslide:[\w:]+", t["expr"])}
    expect(used <= recorded, f"dashboard: no rule records {sorted(used - recorded)}")


def check_alerts():
    """Each alert has an entry in the runbook, and a test in which it fires and one in which it stays silent."""
    folder = TOP / "deploy/observability"
    rules = [r for g in documents(folder / "alerts.yaml")[0]["groups"] for r in g["rules"] if "alert" in r]
    names = [r["alert"] for r in rules]
    expect(len(names) == len(set(names)), "alerts: two have one name")
    text = (TOP / "docs/operations.md").read_text()
    section = text.split("\n# Runbook\n")[1].split("\n# ")[0]
    entries = re.findall(r"^## (\w+)$", section, re.M)
    expect(sorted(entries) == sorted(names), f"alerts: they and the runbook differ by {sorted(set(entries) ^ set(names))}")
    (repository,) = re.findall(r'^repository = "(.*)"$', (TOP / "Cargo.toml").read_text(), re.M)
    for rule in rules:
        url = f"{repository}/blob/main/docs/operations.md#{rule['alert'].lower()}"
        expect(rule["annotations"].get("runbook_url") == url, f"alerts: the runbook of {rule['alert']} is not {url}")
        expect(rule["labels"]["severity"] in ("page", "ticket"), f"alerts: the severity of {rule['alert']}")
    fires, silent = set(), set()
    for test in documents(folder / "alerts.test.yaml")[0]["tests"]:
        for asked in test["promql_expr_test"]:
            name = re.fullmatch(r'ALERTS\{alertname="(\w+)", alertstate="firing"\}', asked["expr"])[1]
            (fires if asked["exp_samples"] else silent).add(name)
    for tested, what in ((fires, "fires"), (silent, "stays silent")):
        expect(tested == set(names), f"alerts: no test in which it {what}, or no alert: {sorted(tested ^ set(names))}")
    probes = set(re.findall(r'register_(?:probe|dependency)\("([\w-]+)"|\bprobe\(builder, "([\w-]+)"', text_of("services")))
    probes = {name for pair in probes for name in pair if name}
    readers = re.findall(r'\("([\w ]+)", (?:one\(|resources\))', (TOP / "services/indexer/src/run.rs").read_text())
    probes |= set(readers) | {"serving", "symbol-events", "tenant-config"}
    probes |= set(re.findall(r'EventTopic \{\s*kind: "([\w-]+)"', text_of("features")))
    lanes = re.findall(r'pub const [A-Z]+: &str = "(\w+)"', (TOP / "crates/proto/src/lanes.rs").read_text())
    probes |= {f"lane {lane}" for lane in lanes}
    table = section.split("\n## UnslideDependencyAway\n")[1].split("\n## ")[0]
    told = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`([^`]+)`", row)}
    expect(told == probes, f"the runbook's probes and the services' differ by {sorted(told ^ probes)}")


def check_scrapes():
    """Targets have the job that the alert rules ask for, and the ports that pods have."""
    (monitor,) = documents(KUBERNETES / "components/prometheus-operator/podmonitor.yaml")
    spec = monitor["spec"]
    label = "app.kubernetes.io/name"
    (selected,) = spec["selector"]["matchExpressions"]
    expect((selected["key"], selected["operator"]) == (label, "In"), "podmonitor: pods are selected by name")
    expect(set(selected["values"]) == {f"unslide-{s}" for s in SERVICES}, f"podmonitor: scrapes {selected['values']}")
    expect(spec.get("jobLabel") == label, f"podmonitor: jobs are not named by {label}")
    expect([e["port"] for e in spec["podMetricsEndpoints"]] == ["admin"], "podmonitor: metrics are on the port admin")
    rules = [r for g in documents(TOP / "deploy/observability/alerts.yaml")[0]["groups"] for r in g["rules"]]
    for rule in rules:
        for job in re.findall(r'job=~"([^"]*)"', rule["expr"]):
            unmatched = [value for value in selected["values"] if not re.fullmatch(job, value)]
            expect(not unmatched, f"alerts: {rule['alert']} does not match the jobs {unmatched}")


def check_runbook():
    """The commands of the installation: what they apply is there, and waits say for how long."""
    text = (TOP / "docs/install.md").read_text()
    applied = re.findall(r"kubectl apply -k (\S+)", text)
    expect(len(applied) == 2, f"install: applies {applied}")
    for folder in applied:
        there = (TOP / folder / "kustomization.yaml").exists()
        expect(there and "overlays/" in folder, f"install: {folder} is no overlay")
    for command in re.findall(r"kubectl .*\bwait\b.*", text):
        expect("--timeout=" in command, f"install: waits for 30 s only: {command}")
    (overlay,) = documents(KUBERNETES / "overlays/production/kustomization.yaml")
    made = re.search(r"kubectl create namespace\s+(\w+)", text)
    expect(made and made[1] == overlay["namespace"], "install: nobody makes the overlay's namespace")
    compose = yaml.safe_load((TOP / "docker-compose.yml").read_text())
    for statement in compose["configs"]["roles"]["content"].splitlines():
        told = re.sub(r"'.*'", "'…'", statement)
        expect(told in text, f"install: does not say {told}")


def check_writers():
    """SECURITY.md says of each topic who may write to it."""
    section = (TOP / "SECURITY.md").read_text().split("## Who may write to which topic\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row) if "<" not in name}
    topics = set(re.findall(r'^pub const \w+: &str = "(.*)";', (TOP / "crates/proto/src/topics.rs").read_text(), re.M))
    expect(named == topics, f"SECURITY.md: the writers' table and topics.rs differ by {sorted(named ^ topics)}")


def check_unit():
    """The systemd unit names the folders that it makes, and does not kill what still drains."""
    text = (TOP / "deploy/systemd/unslide@.service").read_text()
    settings = dict(re.findall(r"^(\w+)=(.*)$", text, re.M))
    limit, needed = int(settings["TimeoutStopSec"]), stop_delay_seconds({}) + drain_seconds({})
    expect(needed < limit, f"systemd: a service stops in {needed} s, but is killed after {limit} s")
    kept = "%C/" + settings["CacheDirectory"]
    (data,) = re.findall(r"UNSLIDE_PROCESS__DATA_DIR=(\S+)", text)
    expect(f"{data}/%i" == kept, f"systemd: a service writes to {data}/%i and is given {kept}")


def check_image():
    """The image is the last stage, without line tables; what its binary is linked with is named."""
    text = (TOP / "deploy/docker/Dockerfile").read_text()
    stages = re.split(r"^FROM ", text, flags=re.M)[1:]
    expect([s.split("\n")[0].split(" AS ")[1:] for s in stages] == [["build"], ["symbols"], []], "image: its stages")
    build, symbols, image = stages
    expect("--strip-unneeded" in build and "--add-gnu-debuglink=/unslide.debug" in build, "image: has the line tables")
    expect("/unslide.debug" in symbols and "unslide.debug" not in image, "image: the line tables are not in `symbols` alone")
    for package in ("ca-certificates", "libgcc-s1", "libssl3", "libstdc++6", "zlib1g"):
        expect(f" {package}" in image, f"image: lacks {package}")


def check_bucket():
    """The policy lets the services do what they ask for; no rule of the bucket deletes objects."""
    folder = TOP / "deploy/objects"
    allowed = {a for s in json.loads((folder / "policy.json").read_text())["Statement"] for a in s["Action"]}
    asked = set(re.findall(r"\.client\s*\.(\w+)\(\)", text_of("crates/artifacts/src/object_store")))
    actions = {
        "abort_multipart_upload": "AbortMultipartUpload",
        "complete_multipart_upload": "PutObject",
        "create_multipart_upload": "PutObject",
        "delete_object": "DeleteObject",
        "delete_objects": "DeleteObject",
        "get_object": "GetObject",
        "head_object": "GetObject",
        "list_multipart_uploads": "ListBucketMultipartUploads",
        "list_objects_v2": "ListBucket",
        "list_parts": "ListMultipartUploadParts",
        "put_object": "PutObject",
        "upload_part": "PutObject",
    }
    expect(asked and asked <= set(actions), f"bucket: no action is known for {sorted(asked - set(actions))}")
    needed = {f"s3:{actions[name]}" for name in asked & set(actions)}
    expect(needed <= allowed, f"bucket: the policy lacks {sorted(needed - allowed)}")
    rules = json.loads((folder / "lifecycle.json").read_text())["Rules"]
    # Old versions go; objects stay.
    expect(all("Expiration" not in rule for rule in rules), "bucket: a rule deletes objects")


def check_pipelines():
    """The action for GitHub and the component for GitLab install the program of this version, by the installer of this commit."""
    version = tomllib.loads((TOP / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    action, (head, job) = documents(TOP / "deploy/github/action.yml")[0], documents(TOP / "deploy/gitlab/templates/upload.yml")
    for name, inputs in (("action", action["inputs"]), ("component", head["spec"]["inputs"])):
        expect(inputs["version"]["default"] == version, f"{name}: installs {inputs['version']['default']}, not {version}")
    script = "\n".join(job["upload-symbols"]["script"])
    checksum = hashlib.sha256((TOP / "deploy/install.sh").read_bytes()).hexdigest()
    expect(f'"{checksum}  install.sh"' in script, f"component: the checksum of install.sh is {checksum}")
    expect(f"/download/v{version}/install.sh" in script, f"component: takes install.sh from another version than {version}")
    text = (TOP / "docs/ci.md").read_text()
    named = set(re.findall(r"(?:deploy/github@v|unslide/unslide/v|upload@)(\d+\.\d+\.\d+)", text))
    named |= set(re.findall(r"--version (\S+)", (TOP / "docs/clouds.md").read_text()))
    expect(named == {version}, f"ci.md and clouds.md: name the versions {sorted(named)}")


def check_components():
    """The page of the components has each of them."""
    table = re.findall(r"^\| `([\w-]+)` \|", (TOP / "docs/clouds.md").read_text().split("\n# Components\n")[1].split("\n# ")[0], re.M)
    there = sorted(path.name for path in (KUBERNETES / "components").iterdir())
    expect(sorted(table) == there, f"clouds: has the components {sorted(table)}, there are {there}")


def substitute(value):
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))


for kustomization in sorted(KUBERNETES.rglob("kustomization.yaml")):
    check_kustomization(kustomization.parent)
check_manifests()
check_overlays()
check_metrics()
check_dashboard()
check_alerts()
check_scrapes()
check_secrets()
check_egress(documents(KUBERNETES / "base/networkpolicy.yaml"))
check_runbook()
check_unit()
check_image()
check_bake()
check_bucket()
check_components()
check_pipelines()
check_writers()
compose = check_compose()
check_clickhouse(compose)
if binary := os.environ.get("UNSLIDE_BIN"):
    # The command asks for every service's settings at once, also of one that has no login to the database.
    credentials = {"UNSLIDE_POSTGRES__URL": "postgres://unslide_service:secret@postgres/unslide"}
    for name, service in compose.items():
        own = {k: substitute(v) for k, v in service["environment"].items()}
        run_config_check(binary, f"compose: {name}", credentials | own, [])
    run_config_check(binary, "kubernetes", credentials, ["--config", str(KUBERNETES / "shared/unslide.toml")])
else:
    print("check-deploy: UNSLIDE_BIN is not set: the configurations are not handed to the binary")
for problem in problems:
    print(f"check-deploy: {problem}", file=sys.stderr)
print(f"check-deploy: {len(problems)} problems")
sys.exit(1 if problems else 0)
