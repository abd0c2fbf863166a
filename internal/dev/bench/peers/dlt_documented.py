"""dlt as its documentation shows: the rest_api source, declared as a dictionary,
one resource that depends on another, default settings."""

import datetime
import os
import sys

base, project, windows, _, out, first = sys.argv[1:]
os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"

import dlt
from dlt.sources.rest_api import rest_api_source


@dlt.resource
def days():
    all_days = [datetime.date.fromisoformat(first) + datetime.timedelta(n) for n in range(int(windows))]
    yield [{"window_start": str(day), "window_end": str(day + datetime.timedelta(1))} for day in all_days]


source = rest_api_source(
    {
        "client": {
            "base_url": f"{base}/v1/analytics/{project}/",
            "auth": {"type": "bearer", "token": "bench_key"},
            "paginator": {"type": "offset", "limit": 250, "total_path": None, "has_more_path": "hasMore"},
        },
        "resources": [
            days(),
            {
                "name": "visitors",
                "endpoint": {
                    "path": "visitors",
                    "data_selector": "visitors",
                    "params": {"dateFrom": "{resources.days.window_start}", "dateTo": "{resources.days.window_end}"},
                },
                "include_from_parent": ["window_start"],
            },
        ],
    }
)

pipeline = dlt.pipeline(
    pipeline_name="visitors",
    pipelines_dir=f"{out}/_dlt",
    destination=dlt.destinations.filesystem(f"file://{out}"),
    dataset_name="data",
)
pipeline.run(source.with_resources("visitors"), loader_file_format="parquet")
