# Answers queries over the Delta Lake tables below a root, which come as lines on
# standard input: rows as TSV, then a line with a point; or a line that begins with "!"
# and describes the problem. Arguments: the root, and storage options as name=value.
import os
import sys

from deltalake import DeltaTable, QueryBuilder

root, options = sys.argv[1], dict(pair.split("=", 1) for pair in sys.argv[2:])
for sql in sys.stdin:
    try:
        query = QueryBuilder()
        for name in "visitors", "totals", "agents":
            if "docgauge_" + name not in sql:
                continue
            query = query.register("docgauge_" + name, DeltaTable(root + "/" + name, storage_options=options))
        columns = query.execute(sql).read_all().columns
        for row in zip(*(column.to_pylist() for column in columns)):
            print(*row, sep="\t")
        print(".", flush=True)
    except Exception as e:
        print("!" + " ".join(f"{type(e).__name__}: {e}".split()), flush=True)
# The threads of deltalake can abort an interpreter that tidies up under them.
os._exit(0)
