"""Reads a Delta table with a program of others and prints what it sees, as JSON.

delta.py TABLE deltalake | duckdb   reads it
delta.py TABLE checkpoint           has deltalake write a checkpoint
delta.py TABLE write                has deltalake append a file, delete rows, and compact
"""
import json
import sys

table, what = sys.argv[1:3]
WINDOW = "2024-11-22"  # window 49, of 50 rows


def with_deltalake():
    from deltalake import DeltaTable, QueryBuilder

    dt = DeltaTable(table)

    def number(sql, of):
        batches = QueryBuilder().register("t", of).execute(sql)
        return int(batches.read_all()[0][0].as_py()) if hasattr(batches, "read_all") else batches

    return {
        "version": dt.version(),
        "files": sorted(relative(f) for f in dt.file_uris()),
        "rows": number("SELECT count(*) FROM t", dt),
        "human": number("SELECT sum(human) FROM t", dt),
        "pruned": number(f"SELECT count(*) FROM t WHERE window_start = DATE '{WINDOW}'", dt),
        "before": number("SELECT count(*) FROM t", DeltaTable(table, version=dt.version() - 10)),
        "vacuum": dt.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False),
        "apps": {k: v for k, v in ((a, dt.transaction_version(a)) for a in apps(dt)) if v is not None},
    }


def apps(dt):
    return ["docgauge/" + str(dt.metadata().id)]


def relative(uri):
    from urllib.parse import unquote

    return unquote(uri).split("/visitors/", 1)[1]


def with_duckdb():
    import glob
    import os

    import duckdb

    packages = os.path.dirname(os.path.dirname(duckdb.__file__))
    (extension,) = glob.glob(packages + "/duckdb_ext/extensions/*/*/delta.duckdb_extension")
    db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    db.execute(f"LOAD '{extension}'")

    def number(sql):
        return int(db.execute(sql).fetchone()[0])

    at = f"delta_scan('{table}')"
    versions = glob.glob(table + "/_delta_log/*[0-9].json")
    newest = max(int(os.path.basename(v)[:20]) for v in versions)
    db.execute(f"ATTACH '{table}' AS t (TYPE delta)")
    db.execute(f"ATTACH '{table}' AS former (TYPE delta, VERSION {newest - 10})")
    return {
        "version": newest,
        "files": sorted({relative(f) for (f,) in db.execute(f"SELECT data_file FROM delta_list_files('{table}')").fetchall()}),
        "rows": number(f"SELECT count(*) FROM {at}"),
        "human": number(f"SELECT sum(human) FROM {at}"),
        "pruned": number(f"SELECT count(*) FROM t WHERE window_start = DATE '{WINDOW}'"),
        "before": number("SELECT count(*) FROM former"),
    }


def checkpoint():
    from deltalake import DeltaTable

    dt = DeltaTable(table)
    dt.create_checkpoint()
    return {"version": dt.version()}


def write():
    from deltalake import DeltaTable, QueryBuilder, write_deltalake

    dt = DeltaTable(table)
    copy = QueryBuilder().register("t", dt).execute(f"SELECT * FROM t WHERE window_start = DATE '{WINDOW}'").read_all()
    write_deltalake(dt, copy, mode="append")
    dt = DeltaTable(table)
    dt.delete("path >= '/docs/010'")
    dt.optimize.compact()
    return {"version": DeltaTable(table).version()}


print(json.dumps({"deltalake": with_deltalake, "duckdb": with_duckdb, "checkpoint": checkpoint, "write": write}[what]()))
