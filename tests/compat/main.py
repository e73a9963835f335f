"""Opens what an earlier release kept, its database, objects and topics, with the program of this one: scripts/check-compat.

The clock is that of the moment at which the data was made, so that no retention deletes it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/month"))

import operations
import promises
import releases
import reports
import senders
from clock import Clock
from servers import NOBODY, own_folder
from tenants import Tenant
from world import World

HERE = Path(__file__).parent
APP = "com.example.north"
PROMISES = [promises.stored_once, promises.figures_agree, promises.audited, promises.servers_agree]


def make(world: World, into: Path):
    """Keeps the data of a small tenant: reports in each form, symbols, sessions, a setting."""
    world.begin()
    tenant = world.tenants["north"]
    releases.release(world, tenant, "1.0")
    senders.send_day(world)
    tenant.request("PUT", "/v1/sources", {"enabled": True})
    world.settle()
    world.product.stop()
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    postgres = world.product.postgres
    operations.run(world, TOP / "deploy/backup/dump", postgres.url("postgres", world.product.first.database), into / "database", path=programs(postgres))
    world.product.stop_servers()
    pack(into / "objects.tar.xz", world.product.objects.folder / "s3")
    pack(into / "topics.tar.xz", world.product.kafka.folder / "logs", "--exclude=*index")
    facts = {"made_at": datetime.now(timezone.utc).isoformat(), "key": tenant.key, "debug_id": world.builds[APP][0].debug_id,
             "sessions": tenant.sessions, "reports": tenant.reports}
    (into / "facts.json").write_text(json.dumps(facts, indent=1, default=str) + "\n")


def programs(postgres):
    return operations.dump_programs(int(postgres.version().split(".")[0])) or operations.dump_programs(0)


def pack(archive: Path, folder: Path, *options: str):
    # The S3 endpoint names files after modification times, which only this format has with their nanoseconds.
    subprocess.run(["tar", "--create", "--xz", "--format=posix", "--file", archive, *options, "--directory", folder, "."], check=True)


def unpack(archive: Path, folder: Path):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(["tar", "--extract", "--xz", "--file", archive, "--directory", folder], check=True)
    subprocess.run(["chown", "--recursive", f"{NOBODY}:{NOBODY}", folder], check=True)


def open_data(world: World, kept: Path, facts: dict) -> list[str]:
    """Starts the services on kept data. Returns what is wrong."""
    product = world.product
    unpack(kept / "objects.tar.xz", product.objects.folder / "s3")
    unpack(kept / "topics.tar.xz", product.kafka.folder / "logs")
    product.start_servers()
    operations.run(world, TOP / "deploy/backup/restore", product.postgres.url("postgres", "postgres"), "unslide", kept / "database",
                   path=programs(product.postgres))
    product.make_kafka_users(product.first, product.first.login)
    product.run("migrate", "--topics")
    product.postgres.make_login(product.first.login)
    product.start()
    tenant = world.tenants["north"] = Tenant("north", product.api_url())
    tenant.key, tenant.sessions, tenant.reports = facts["key"], facts["sessions"], facts["reports"]
    wrong = [broken for promise in PROMISES if (broken := promise(world))]
    wrong += [f"{id} has no text" for id in tenant.reports if tenant.revision(id) != 1]
    # Symbols that were built then answer a report of today.
    build = reports.Build(APP, "1.0", "100", world.seed)
    build.debug_id = facts["debug_id"]
    world.builds[APP].append(build)
    old = {one["id"]: one["status"] for one in tenant.pages("/v1/reports")}
    world.send_one()
    world.settle()
    usual = {old[id] for id in old if facts["reports"].get(id, {}).get("kind") == "kscrash"}
    new = {one["status"] for one in tenant.pages("/v1/reports") if one["id"] not in old}
    return wrong + ([f"new reports are {new}, those of then {usual}"] if new != usual else [])


def run(kept: Path, is_new: bool) -> list[str]:
    folder = own_folder(Path(tempfile.mkdtemp(prefix="unslide-compat.", dir=os.environ.get("TMPDIR", "/var/tmp"))))
    clock = Clock(folder, 0)
    facts = {} if is_new else json.loads((kept / "facts.json").read_text())
    if facts:
        clock.behind = datetime.now(timezone.utc) - datetime.fromisoformat(facts["made_at"]) - timedelta(minutes=1)
        clock.write()
    # The oldest PostgreSQL, as its dumps can be read by all.
    world = World(folder, {"north": [APP]}, 1, clock, Path(os.environ["UNSLIDE_BIN"]), is_oldest=is_new, brokers=1)
    try:
        return make(world, kept) or [] if is_new else open_data(world, kept, facts)
    finally:
        world.product.end()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/check-compat", description=__doc__)
    parser.add_argument("--make", metavar="RELEASE", help="keep the data of this release")
    arguments = parser.parse_args()
    if arguments.make:
        run(HERE / arguments.make, is_new=True)
    releases_kept = sorted(facts.parent for facts in HERE.glob("*/facts.json"))
    if not releases_kept:
        print("check-compat: nothing is kept yet: --make RELEASE")
        return
    wrong = [f"{kept.name}: {what}" for kept in releases_kept for what in run(kept, is_new=False)]
    for what in wrong:
        print(f"check-compat: {what}", file=sys.stderr)
    print(f"check-compat: {'opened, all as it was' if not wrong else 'failed'}")
    sys.exit(1 if wrong else 0)


main()
