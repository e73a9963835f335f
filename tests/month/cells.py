"""A second cell, and a tenant that moves there, by the steps of docs/cells.md."""

import subprocess

from faults import Load
from product import Cell
from security import Login
from servers import AS_NOBODY, Failed, free_port, own_folder

# The tenant that moves. Its next release misses its symbols, and people sign in.
MOVER = "north"
DOOR = {"door": "door"}
SERVICES = {"cell-b-api": "api", "cell-b-symbolizer": "symbolizer", "cell-b-indexer": "indexer", "cell-b-builder": "builder"}
# Tables of the old cell that name a tenant which moved: its own row, the proof, and the directory, which is in the same database.
KEPT = {"tenants", "tenant_erasures", "audit_log", "jobs", "cell_tenants"}
# A builder searches again a day after an erasure.
NO_PROOF = """SELECT (SELECT count(*) FROM audit_log WHERE tenant = '{0}' AND action NOT IN ('tenant.erased', 'tenant.swept'))
                   + (SELECT count(*) FROM jobs WHERE tenant = '{0}' AND kind <> 'erase')"""
# A move prints some more.
LINES = 9


def add_a_cell(month):
    """The installation becomes a cell behind a door, which takes over its address, and a second cell begins, while reports come."""
    product, cell = month.product, Cell("cell-b", Login(owner="cell-b"), "unslide-cell-b", "cell-b.")
    with Load(month):
        begin_directory(product)
        product.postgres.ask(f"CREATE DATABASE {cell.database}")
        product.postgres.make_login(cell.login)
        product.objects.stop()
        own_folder(product.objects.bucket(cell.bucket))
        product.objects.set_keys(product.first.login, cell.login)
        product.objects.start()
        product.cells.append(cell)
        for each in product.cells:
            product.make_kafka_users(each, each.login)
        product.run("migrate", "--topics", cell=cell)
        product.add_services(cell, SERVICES)
        product.start(list(SERVICES))
        set_cell(product, cell, "--topic-prefix", cell.prefix, "--region", "eu-west")
    month.prometheus.write_targets(product)
    month.prometheus.reload(month.prometheus.rules)
    if product.run("tenant", "create", MOVER, cell=cell, check=False).returncode == 0:
        raise Failed(f"the second cell made a tenant of the name {MOVER}, which the first has")
    product.operate("api", "cells", "run", "--", "config", "check", "--connect", "--service", "api")


def begin_directory(product):
    """Makes the installation the first cell, with the directory in its database, and starts the door at its address."""
    product.directory_login = Login(owner="directory")
    product.postgres.make_login(product.directory_login)
    product.stop_service("api")
    product.first.api_port = free_port()
    product.start(["api"])
    set_cell(product, product.first, "--claim-tenants")
    product.add_services(product.first, DOOR)
    product.start(list(DOOR))


def set_cell(product, cell, *options):
    """Enters a cell in the directory, with the login of the directory's owner."""
    owner = product.postgres.url("postgres", product.first.database)
    product.operate("api", "cells", "set", cell.name, "--url", cell.api_url(), *options, UNSLIDE_CELLS__DIRECTORY=owner)


def move_a_tenant(month):
    """A tenant moves to the second cell while reports come. The command is killed, and goes on when it is run again."""
    product, tenant, cell = month.product, month.tenants[MOVER], month.product.cells[1]
    command = ("tenant", "move", tenant.slug, "--to", cell.name)
    product.operate("migrate", *command, "--dry-run")
    with Load(month):
        kill_move(month, command)
        product.operate("migrate", *command, "--yes")
    tenant.cell = cell
    month.moved.append(tenant)


def kill_move(month, command):
    """Kills a move after one of the lines that it prints."""
    product, line = month.product, ""
    with subprocess.Popen(product.operator_command("migrate", *command, "--yes"), env=product.environment(), stdout=subprocess.PIPE, text=True,
                          cwd=product.folder, **AS_NOBODY) as mover:
        for _ in range(month.seed.randrange(1, LINES)):
            line = mover.stdout.readline() or line
        mover.kill()
    print(f"day {month.day}: killed the move after: {line.strip()}", flush=True)


def nothing_stays_behind(month):
    """The old cell of a tenant that moved has no row and no object of it, but its own row and the proof of its erasure."""
    product = month.product
    for tenant in month.moved:
        found = [place for place in product.search_tables(rf"\m{tenant.slug}\M", product.first) if place[0] not in KEPT]
        if found:
            table, rows = found[0]
            return f"{table} has {rows[:200]} of {tenant.slug}"
        if (count := product.sql(NO_PROOF.format(tenant.slug))) != "0":
            return f"the audit log or the jobs have {count} rows of {tenant.slug}"
        objects = [file for file in (product.objects.bucket(product.first.bucket) / "t" / tenant.slug).rglob("*") if file.is_file()]
        if objects:
            return f"the bucket has {objects[0]} of {tenant.slug}"
    return None
