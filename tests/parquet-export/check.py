#!/usr/bin/env python3
"""Reads the Parquet files of an export with DuckDB and ClickHouse, by the statements of docs/parquet-export.md.

    check.py FOLDER

FOLDER is that of the prefix. Prints the rows of the query of the page, with tabs, behind the name of the reader.
"""
import pathlib
import re
import sys

import chdb
import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/parquet-export.md"
# Where the page has the files, and the paths that ClickHouse gives to them.
DUCKDB_FOLDER = "s3://lake/crashes"
CLICKHOUSE_FOLDER = "https://lake.s3.eu-central-1.amazonaws.com/crashes"
CLICKHOUSE_PATH = "lake/crashes"


def read_statements(reader):
    """Returns the statements of a section of the page."""
    section = PAGE.read_text().split(f"### {reader}\n", 1)[1].split("\n##", 1)[0]
    blocks = re.findall(r"```sql\n(.*?)```", section, re.S)
    return [statement for block in blocks for statement in block.split(";") if statement.strip()]


def ask_duckdb(folder):
    *before, query = [statement.replace(DUCKDB_FOLDER, folder) for statement in read_statements("DuckDB")]
    connection = duckdb.connect()
    for statement in before:
        connection.execute(statement)
    return ["\t".join(map(str, row)) for row in connection.execute(query).fetchall()]


def ask_clickhouse(folder):
    (query,) = read_statements("ClickHouse")
    # Files of this machine in place of those of a bucket.
    query = query.replace(CLICKHOUSE_FOLDER, folder).replace(f"'{CLICKHOUSE_PATH}/'", f"'{folder}/'").replace("s3(", "file(")
    return str(chdb.query(query, "TabSeparated")).splitlines()


folder = str(pathlib.Path(sys.argv[1]).resolve())
for name, ask in [("duckdb", ask_duckdb), ("clickhouse", ask_clickhouse)]:
    for row in ask(folder):
        print(f"{name}\t{row}")
