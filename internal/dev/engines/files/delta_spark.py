"""Reads {tables: [{name, path, version}], setup, recipes: [{name, code}]} as JSON from standard
input, runs the SQL of the setup and of all recipes over the Delta tables with Spark, and prints a
table for each recipe: {columns, rows}, every value as text."""
import json
import logging
import sys

from pyspark.sql import SparkSession


def text(value):
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)


logging.disable()  # an exception says the same in fewer words
given, spark = json.load(sys.stdin), SparkSession.builder.master("local[2]").getOrCreate()
for table in given.get("tables", []):
    read = spark.read.format("delta")
    if table["version"] is not None:
        read = read.option("versionAsOf", table["version"])
    read.load(table["path"]).createOrReplaceTempView(table["name"])
for statement in filter(str.strip, given["setup"].split(";\n")):
    spark.sql(statement)
answers = []
for recipe in given["recipes"]:
    result = spark.sql(recipe["code"].rstrip().rstrip(";"))
    rows = [[text(value) for value in row] for row in result.collect()]
    answers.append({"columns": result.columns, "rows": rows})
print(json.dumps(answers))
