"""Reads {tables: [{name, path, version}], setup, recipes: [{name, code}]} as JSON from standard
input, runs the SQL of the setup and of all recipes over the Delta tables with DuckDB's delta
extension, and prints a table for each recipe: {columns, rows}, every value as text."""
import glob
import json
import sys

import duckdb


def text(value):
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)


given, db = json.load(sys.stdin), duckdb.connect(config={"allow_unsigned_extensions": "true"})
(extension,) = glob.glob(sys.prefix + "/lib/python*/site-packages/duckdb_ext/extensions/*/*/delta.duckdb_extension")
db.load_extension(extension)
for table in given.get("tables", []):
    version = "" if table["version"] is None else f", VERSION {table['version']}"
    db.execute(f"ATTACH '{table['path']}' AS delta_{table['name']} (TYPE delta{version})")
    db.execute(f"CREATE VIEW {table['name']} AS SELECT * FROM delta_{table['name']}")
db.execute(given["setup"])
answers = []
for recipe in given["recipes"]:
    result = db.execute(recipe["code"])
    rows = [[text(value) for value in row] for row in result.fetchall()]
    answers.append({"columns": [column[0] for column in result.description], "rows": rows})
print(json.dumps(answers))
