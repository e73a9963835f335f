"""What operators do: a backup and its restore by the steps of docs/backup.md, rolling updates, the maintenance of a machine."""

import os
import shutil
import subprocess
from pathlib import Path

import releases
from faults import Load
from keys import renew_keys
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
            run(month, TOP / "deploy/backup/dump", postgres.url("postgres", month.product.first.database), month.backup, path=path)
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
    """Restores the backup: of the first cell, or of all if the server's files were copied. Indexers store again what came since."""
    product, is_dump = month.product, month.backup.is_file()
    cells = [product.first] if is_dump else product.cells
    old = [(cell, files(month, cell)) for cell in cells]
    stopped = [name for name, kind in product.kinds.items() if kind in ("builder", "indexer", "api") and product.cell_of[name] in cells]
    for name in stopped:
        product.stop_service(name)
    if is_dump:
        path = dump_programs(int(product.postgres.version().split(".")[0]))
        run(month, TOP / "deploy/backup/restore", product.postgres.url("postgres", "postgres"), "restored", month.backup, path=path)
        product.first.database = "restored"
    else:
        product.postgres.stop()
        shutil.rmtree(product.postgres.data)
        subprocess.run(["cp", "-a", month.backup, product.postgres.data], check=True)
        product.postgres.start()
        if product.directory_login:
            product.postgres.make_login(product.directory_login)
    for cell in cells:
        product.postgres.make_login(cell.login)
        product.run("migrate", cell=cell)
    for kind in ("builder", "indexer", "api"):
        product.start([name for name in stopped if product.kinds[name] == kind])
    # Step 2: the directory may have another address.
    replace_services(month, [name for name, kind in product.kinds.items() if kind in ("api", "door") and name not in stopped])
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
    for cell, before in old:
        delete_files_without_row(month, cell, before)
    # Step 6.
    for repeat in month.repeat_after_restore:
        repeat()


def files(month, cell) -> set[Path]:
    return {file for file in month.product.objects.bucket(cell.bucket).rglob("*") if file.is_file()}


def delete_files_without_row(month, cell, old: set[Path]):
    """Deletes the files of before the restore that no row names, as `fsck` says."""
    found = month.product.run("fsck", "--age", "1s", "--limit", "1000", check=False, cell=cell).stdout
    lines = [line for line in found.splitlines() if line.startswith("file without row")]
    for file in old:
        if any(str(file.relative_to(month.product.objects.bucket(cell.bucket))) in line for line in lines):
            file.unlink()


def rolling_update(month):
    """Each service is replaced by the same program while reports come."""
    with Load(month):
        for cell in month.product.cells:
            month.product.run("migrate", "--topics", cell=cell)
        replace_services(month, month.product.kinds)


def upgrade(month):
    """The older program with which all began is replaced by this one, service by service, while reports come. Its migrations come first."""
    product = month.product
    product.program, product.next_program = product.install(product.next_program, "unslide-next"), None
    # The newer program may have more topics.
    product.make_kafka_users(product.first, product.first.login)
    rolling_update(month)


def replace_services(month, names):
    """Replaces services by those with the program and the secrets of now, one after another."""
    for name in names:
        month.product.stop_service(name)
        month.product.start([name])


def restart(month):
    """Everything stops in order and starts again with its data, as after the maintenance of a machine."""
    month.product.stop()
    month.product.stop_servers()
    month.product.start_servers()
    month.product.start()
