"""What operators do: a backup and its restore by the steps of docs/backup.md, rolling updates, the maintenance of a machine."""

import os
import shutil
import subprocess
from pathlib import Path

import releases
from faults import Load
from keys import renew_keys
from product import SERVICES
from servers import NOBODY, WAIT_SECONDS, Failed, TOP


def dump_programs(major: int) -> Path | None:
    """Returns the folder of a pg_dump that can read a server of this version."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if folder.parent.name.isdigit() and int(folder.parent.name) >= major and (folder / "pg_dump").exists():
            return folder
    return None


def run(month, *command, path=None):
    environment = os.environ | ({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=WAIT_SECONDS)
    if ran.returncode != 0:
        raise Failed(f"{command[0]}: {ran.stdout[-400:]}{ran.stderr[-400:]}")
    return ran.stdout


def back_up(month):
    """Dumps the database, or copies its files while it runs if no pg_dump is as new as the server."""
    postgres, month.backup = month.product.postgres, month.folder / "backup"
    month.backed_up_on, month.repeat_after_restore = month.day, []
    with Load(month):
        if path := dump_programs(int(postgres.version().split(".")[0])):
            run(month, TOP / "deploy/backup/dump", postgres.url("postgres"), month.backup, path=path)
        else:
            copy_files(postgres, month.backup)


def copy_files(postgres, backup):
    label = backup.with_suffix(".label")
    script = (f"SELECT pg_backup_start('month', true);\n\\! cp -a {postgres.data} {backup} 2>/dev/null\n"
              f"\\o {label}\nSELECT labelfile FROM pg_backup_stop(false);\n")
    ran = subprocess.run(["psql", postgres.url("postgres"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"], input=script,
                         capture_output=True, text=True, timeout=WAIT_SECONDS)
    if ran.returncode != 0 or not label.stat().st_size:
        raise Failed(f"the backup failed: {ran.stderr}")
    shutil.rmtree(backup / "pg_wal")
    subprocess.run(["cp", "-a", postgres.data / "pg_wal", backup / "pg_wal"], check=True)
    (backup / "postmaster.pid").unlink(missing_ok=True)
    shutil.copy(label, backup / "backup_label")
    os.chown(backup / "backup_label", NOBODY, NOBODY)


def restore(month):
    """Restores the backup. Indexers store again what came since."""
    product, old = month.product, files(month)
    for name in [name for name in SERVICES if SERVICES[name] != "symbolizer"]:
        product.stop_service(name)
    if month.backup.is_file():
        path = dump_programs(int(product.postgres.version().split(".")[0]))
        run(month, TOP / "deploy/backup/restore", product.postgres.url("postgres", "postgres"), "restored", month.backup, path=path)
        product.postgres.database = "restored"
    else:
        product.postgres.stop()
        shutil.rmtree(product.postgres.data)
        subprocess.run(["cp", "-a", month.backup, product.postgres.data], check=True)
        product.postgres.start()
    product.postgres.make_login(product.login)
    product.run("migrate")
    for kind in ("builder", "indexer", "api"):
        product.start([name for name in SERVICES if SERVICES[name] == kind])
    # Step 5: keys that were made since are missing, and those that were revoked are valid again.
    for tenant in month.tenants.values():
        renew_keys(month, tenant)
    # Step 4: symbols without a row are uploaded again, and files without a row deleted.
    for tenant in month.tenants.values():
        for app in month.apps[tenant.slug]:
            for build in month.builds[app]:
                if build.released_at >= month.backed_up_on and build.has_symbols:
                    releases.upload(month, tenant, build)
    month.settle()
    delete_files_without_row(month, old)
    # Step 6.
    for repeat in month.repeat_after_restore:
        repeat()


def files(month) -> set[Path]:
    return {file for file in (month.product.objects.folder / "s3/unslide").rglob("*") if file.is_file()}


def delete_files_without_row(month, old: set[Path]):
    """Deletes the files of before the restore that no row names, as `fsck` says."""
    found = month.product.run("fsck", "--age", "1s", "--limit", "1000", check=False).stdout
    lines = [line for line in found.splitlines() if line.startswith("file without row")]
    for file in old:
        if any(str(file).split("s3/unslide/")[1] in line for line in lines):
            file.unlink()


def rolling_update(month):
    """Each service is replaced by the same program while reports come."""
    with Load(month):
        month.product.run("migrate", "--topics")
        replace_services(month)


def upgrade(month):
    """The older program with which all began is replaced by this one, service by service, while reports come. Its migrations come first."""
    product = month.product
    product.program, product.next_program = product.install(product.next_program, "unslide-next"), None
    # The newer program may have more topics.
    product.make_kafka_users(product.login)
    rolling_update(month)


def replace_services(month):
    """Replaces each service by one with the program and the secrets of now, one after another."""
    for name in SERVICES:
        month.product.stop_service(name)
        month.product.start([name])


def restart(month):
    """Everything stops in order and starts again with its data, as after the maintenance of a machine."""
    month.product.stop()
    month.product.stop_servers()
    month.product.start_servers()
    month.product.start()
