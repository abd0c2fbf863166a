"""Prints every window of docgauge's Delta tables as a line of JSON: the totals of the site, and what
its pages come to. With versions of the two tables it prints beside it what the window was then.

    spark-submit --packages io.delta:delta-spark_2.13:4.0.1 windows.py s3a://lake/delta
    spark-submit --packages io.delta:delta-spark_2.13:4.0.1 windows.py s3a://lake/delta VISITORS TOTALS

It exits with 1 if the pages of a window are not as many as its totals say."""
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

WINDOW = ["project", "granularity", "window_start", "window_end"]

spark = (
    SparkSession.builder.appName("docgauge windows")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)


def table(path, version):
    reader = spark.read.format("delta")
    return (reader.option("versionAsOf", version) if version else reader).load(path)


def windows(name, root, visitors=None, totals=None):
    """The windows, each with a column of that name. The sums over pages count no visitors: they
    show whether two tables have the same rows."""
    pages = table(root + "/visitors", visitors).groupBy(*WINDOW, "revision").agg(
        f.count("*").alias("pages"),
        *(f.sum(column).alias("sum_of_" + column) for column in ("human", "ai", "total")),
    )
    both = table(root + "/totals", totals).join(pages, [*WINDOW, "revision"], "left").na.fill(0, pages.columns[5:])
    complete = f.greatest("page_count", f.lit(0)) == f.col("pages")
    columns = ["revision", "human", "ai", "total", "page_count", *pages.columns[5:]]
    return both.select(*WINDOW, f.struct(*columns, complete.alias("complete")).alias(name))


root, *versions = sys.argv[1:]
found = windows("now", root)
if versions:
    found = found.join(windows("then", root, *versions), WINDOW, "full")
complete = True
for line in found.orderBy(WINDOW).select(f.to_json(f.struct("*")), "now.complete").collect():
    print(line[0])
    complete = complete and line[1] is not False
sys.exit(not complete)
