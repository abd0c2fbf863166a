"""Prints how many readers of which kind each page and the site (*) had, by an access log, which Polars reads as CSV."""

import sys

import polars as pl

columns = ["ip", "c1", "c2", "c3", "c4", "request", "status", "c7", "c8", "ua"]
path = pl.col("path")
ua = pl.col("ua")
views = (
    pl.scan_csv(sys.argv[1], separator=" ", has_header=False, infer_schema=False, new_columns=columns,
                truncate_ragged_lines=True)
    .select("ip", "ua", "status", path=pl.col("request").str.extract(r"^GET ([^ ?]+)", 1))
    .filter(path.is_not_null() & pl.col("status").is_in(["200", "304"]))
    .filter(~path.str.contains(r"[.](js|png)$") & ~ua.str.contains("bot/|Bot/"))
    .with_columns(ai=ua.str.contains("-User") | path.str.ends_with(".md"))
    .filter(pl.col("ai") | ~ua.str.contains("^(curl|python)"))
    .select("ip", "ua", "ai", page=path.str.replace(r"([.](html|md)|/)$", ""))
    .unique()
    .collect(engine="streaming")
)
readers = [
    pl.struct("ip", "ua").filter(~pl.col("ai")).n_unique().alias("human"),
    pl.struct("ip", "ua").filter(pl.col("ai")).n_unique().alias("ai"),
    pl.struct("ip", "ua").n_unique().alias("total"),
]
for row in [*views.group_by("page").agg(readers).rows(), ("*", *views.select(readers).row(0))]:
    print(*row)
