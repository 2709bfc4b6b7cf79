"""Reads the lake with Spark: a temporary view for each table, such as safe.messages as safe_messages.

    npx shelfdesk lake files --json > files.json
    spark-submit read_the_lake.py files.json "select state, count(*) from safe_tickets group by state"
"""

import json
import sys
from os.path import basename

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def open_lake(spark, listed):
    """Makes the views. A table without files gets none."""
    for table in listed["tables"]:
        if table["files"]:
            rows_of(spark, table["files"]).createOrReplaceTempView(table["table"].replace(".", "_"))


def rows_of(spark, files):
    """The rows of the data files, without the places that their delete files name."""
    up_to = next((file["upTo"] for file in files if file["upTo"] is not None), None)
    rows = read(spark, [file["path"] for file in files], up_to)
    pairs = [(basename(file["deletes"]), basename(file["path"])) for file in files if file["deletes"]]
    if pairs:
        deletes = read(spark, [file["deletes"] for file in files if file["deletes"]], up_to)
        deletes = deletes.select(f.col("_file").alias("_deletes"), f.col("pos").alias("_place"))
        gone = deletes.join(f.broadcast(spark.createDataFrame(pairs, ["_deletes", "_file"])), "_deletes")
        rows = rows.join(gone, ["_file", "_place"], "left_anti")
    return rows.drop("_file", "_place")


def read(spark, paths, up_to):
    """The rows of files, each with the name of its file and its place in the file."""
    # The folders are named after columns that the files have as well: recursiveFileLookup leaves the names alone.
    files = spark.read.option("recursiveFileLookup", True).option("mergeSchema", up_to is not None)
    # Spark calls buckets s3a.
    rows = files.parquet(*[path.replace("s3://", "s3a://", 1) for path in paths])
    if up_to is not None and "_ducklake_internal_snapshot_id" in rows.columns:
        rows = rows.where(f.coalesce("_ducklake_internal_snapshot_id", f.lit(0)) <= up_to)
    columns = [column for column in rows.columns if not column.startswith("_ducklake_")]
    place = [f.col("_metadata.file_name").alias("_file"), f.col("_metadata.row_index").alias("_place")]
    return rows.select(*columns, *place)


if __name__ == "__main__":
    session = SparkSession.builder.appName("lake").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    with open(sys.argv[1], encoding="utf-8") as file:
        open_lake(session, json.load(file))
    for query in sys.argv[2:]:
        session.sql(query).show(50, False)
