"""deltalake.py TABLE read | checkpoint | write has deltalake look at a table, write a checkpoint,
or append a file, delete rows and compact; it prints what it sees as JSON."""
import json
import os
import sys
from urllib.parse import unquote

from deltalake import DeltaTable, QueryBuilder, write_deltalake

path, what = sys.argv[1:3]
table = DeltaTable(path)
if what == "checkpoint":
    table.create_checkpoint()
elif what == "write":
    rows = QueryBuilder().register("t", table).execute("SELECT * FROM t WHERE window_start = DATE '2024-11-22'").read_all()
    write_deltalake(table, rows, mode="append")
    table = DeltaTable(path)
    table.delete("path >= '/docs/010'")
    table.optimize.compact()
table = DeltaTable(path)
print(json.dumps({
    "version": table.version(),
    "files": sorted(unquote(uri).split("/visitors/", 1)[1] for uri in table.file_uris()),
    "vacuum": table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False),
    "app": table.transaction_version(f"docgauge/{table.metadata().id}"),
}))
# The threads of deltalake can abort an interpreter that tidies up under them.
sys.stdout.flush()
os._exit(0)
