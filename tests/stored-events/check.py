#!/usr/bin/env python3
"""Reads events about stored reports with ClickHouse, by the statements of docs/stored-events.md.

    check.py FOLDER

FOLDER has the values of the records, each in a file. Prints the rows of the query of the page, with tabs.
"""
import pathlib
import re
import sys
import tempfile

from chdb.session import Session

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/stored-events.md"
SCHEMA = ROOT / "proto/unslide/stored/v1/stored.proto"


def read_statements():
    """Returns the statements that make the tables, and the query."""
    section = PAGE.read_text().split("## ClickHouse", 1)[1].split("\n## ", 1)[0]
    tables, query = re.findall(r"```sql\n(.*?)```", section, re.S)
    return [statement for statement in tables.split(";") if statement.strip()], query


def read_events(files):
    statements, query = read_statements()
    columns = re.search(r"crash_queue \((.*?)\n\) ENGINE", statements[0], re.S).group(1)
    # The engine gives the records to the views as they come. Here they come from files.
    statements[0] = re.sub(r"ENGINE = Kafka.*", "ENGINE = Null", statements[0], flags=re.S)
    with tempfile.TemporaryDirectory() as folder:
        session = Session(folder)
        session.query("CREATE DATABASE crashes_test ENGINE = Atomic")
        session.query("USE crashes_test")
        for statement in statements:
            session.query(statement)
        for file in files:
            source = f"file('{file}', 'ProtobufSingle', '{columns}')"
            session.query(
                f"INSERT INTO crash_queue SELECT * FROM {source} SETTINGS format_schema = '{SCHEMA}:StoredEvent'"
            )
        answer = str(session.query(query, "TabSeparated"))
        session.query("OPTIMIZE TABLE crashes FINAL CLEANUP")
        cleaned = str(session.query("SELECT count() FROM crashes WHERE is_deleted", "TabSeparated"))
        assert cleaned.strip() == "0", f"{cleaned} deleted rows are left after the cleanup"
        session.close()
    return answer


print(read_events(sorted(pathlib.Path(sys.argv[1]).resolve().iterdir())), end="")
