"""Describes the Parquet files named by the arguments as JSON, one object each."""
import json
import sys

import pyarrow.parquet as pq


def describe(path):
    f = pq.ParquetFile(path)
    meta = f.metadata
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    chunks = [g.column(i) for g in groups for i in range(g.num_columns)]
    return {
        "created_by": meta.created_by,
        "row_groups": [g.num_rows for g in groups],
        "columns": [
            {"name": field.name, "type": str(field.type), "nullable": field.nullable}
            for field in f.schema_arrow
        ],
        "metadata": {k.decode(): v.decode() for k, v in (meta.metadata or {}).items()},
        "compression": sorted({c.compression for c in chunks}),
        "without_statistics": sorted(
            {c.path_in_schema for c in chunks if not (c.is_stats_set and c.statistics.has_min_max)}
        ),
        "with_index": any(c.has_offset_index or c.has_column_index for c in chunks),
        "min_max": {
            c.path_in_schema: [str(c.statistics.min), str(c.statistics.max)] for c in chunks if c.is_stats_set
        },
        "rows": [[str(v) for v in row.values()] for row in f.read().to_pylist()],
    }


print(json.dumps([describe(path) for path in sys.argv[1:]]))
