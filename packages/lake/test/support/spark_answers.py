"""Asks questions of the lake by docs/how-to/read_the_lake.py, on a cluster of two executors: {listed, queries} in, answers out."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs/how-to"))

from pyspark.sql import SparkSession  # noqa: E402
from read_the_lake import open_lake  # noqa: E402

with open(sys.argv[1], encoding="utf-8") as file:
    asked = json.load(file)
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", 4)
    .config("spark.ui.enabled", False)
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
open_lake(spark, asked["listed"])
answers = [[list(row) for row in spark.sql(query).collect()] for query in asked["queries"]]
executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
with open(sys.argv[2], "w", encoding="utf-8") as file:
    # The driver is among them.
    json.dump({"executors": len(executors) - 1, "answers": answers}, file, default=str)
spark.stop()
