"""Prints as JSON how many rows a Delta table has for a condition, and the seconds until the first
answer, when the reader knows nothing of the table, and until the next. A reader that is slow at its
first query of all is asked about another table before.

    planning.py READER OTHER TABLE CONDITION"""
import glob
import json
import sys
import time


class Deltalake:
    def __init__(self):
        import pyarrow
        from deltalake import DeltaTable, QueryBuilder

        self.arrow, self.table, self.builder = pyarrow, DeltaTable, QueryBuilder

    def open(self, path):
        engine = self.builder().register("t", self.table(path))
        return lambda sql: self.arrow.table(engine.execute(sql).read_all())[0][0].as_py()


class DuckDB:
    def __init__(self):
        import duckdb

        self.db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        (extension,) = glob.glob(sys.prefix + "/lib/python*/site-packages/duckdb_ext/extensions/*/*/delta.duckdb_extension")
        self.db.load_extension(extension)

    def open(self, path):
        self.db.execute(f"CREATE OR REPLACE VIEW t AS SELECT * FROM delta_scan('{path}')")
        return lambda sql: self.db.execute(sql).fetchone()[0]


class Files(DuckDB):
    """DuckDB over a folder of Parquet files, which it lists."""

    def open(self, path):
        self.db.execute(f"CREATE OR REPLACE VIEW t AS SELECT * FROM read_parquet('{path}/**/*.parquet')")
        return lambda sql: self.db.execute(sql).fetchone()[0]


class Spark:
    def __init__(self):
        from pyspark.sql import SparkSession

        self.spark = SparkSession.builder.master("local[2]").getOrCreate()

    def open(self, path):
        self.spark.read.format("delta").load(path).createOrReplaceTempView("t")
        return lambda sql: self.spark.sql(sql).collect()[0][0]


name, other, path, condition = sys.argv[1:]
reader = {"deltalake": Deltalake, "duckdb": DuckDB, "files": Files, "spark": Spark}[name]()
sql = "SELECT count(*) FROM t WHERE " + condition
reader.open(other)(sql)
begin = time.perf_counter()
query = reader.open(path)
rows = query(sql)
first = time.perf_counter()
query(sql)
print(json.dumps({"rows": rows, "first": first - begin, "next": time.perf_counter() - first}))
