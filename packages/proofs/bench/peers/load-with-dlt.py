"""dlt at its best with tickets, as its manual advises: Arrow tables of many pages, COPY of CSV files that are not compressed.

    python load-with-dlt.py <database> <url of the source> <token> <merge strategy>

One load, in a process of its own.
"""

import json
import platform
import sys
import time
from datetime import datetime, timedelta
from urllib.parse import urlparse

import dlt
import orjson
import pyarrow as pa
from dlt.sources.helpers import requests

PER_PAGE = 100
PER_TABLE = 10_000
database, url, token, strategy = sys.argv[1:]

text = ["id", "customer_id", "user_id", "inbox_id", "state", "type", "subject", "summary", "reply_to", "reply_cc"]
times = ["snoozed_until", "created_at", "updated_at"]
seen = pa.schema(
    [(name, pa.string()) for name in [*text, *times, "label_ids"]]
    + [("number", pa.int64()), ("spam", pa.bool_()), ("trash", pa.bool_())]
)
stored = pa.schema([pa.field(f.name, pa.timestamp("us", "UTC")) if f.name in times else f for f in seen])


@dlt.resource(
    name="tickets",
    primary_key="id",
    write_disposition={"disposition": "merge", "strategy": strategy, "deduplicated": True},
    columns={"label_ids": {"data_type": "json"}},
)
def tickets():
    """In order of creation, one page after the other."""
    since = None
    before, rows = set(), []
    while True:
        page = orjson.loads(
            requests.get(
                f"{url}/tickets",
                params={"sort": "created_at", "per_page": PER_PAGE, "since_created_at": since},
                headers={"authorization": f"Bearer {token}"},
            ).content
        )
        new = [row for row in page if row["id"] not in before]
        for row in new:
            row["label_ids"] = orjson.dumps(row["label_ids"]).decode()
        before = {row["id"] for row in page}
        rows += new
        full = len(page) == PER_PAGE
        if rows and (not full or len(rows) >= PER_TABLE):
            yield pa.Table.from_pylist(rows, seen).cast(stored)
            rows = []
        if not full:
            return
        # It is not known whether `since` includes its own second.
        following = (datetime.fromisoformat(page[-1]["created_at"]) - timedelta(seconds=1)).isoformat()
        if following == since:
            raise ValueError(f"one second fills a page: {since}")
        since = following


pipeline = dlt.pipeline(
    # Its state goes with the database.
    pipeline_name=urlparse(database).path[1:],
    dataset_name="helpdesk",
    # The scheme that its driver knows.
    destination=dlt.destinations.postgres(database.replace("postgres://", "postgresql://", 1)),
)
begun = time.perf_counter()
pipeline.run(tickets(), loader_file_format="csv")
seconds = time.perf_counter() - begun
versions = f"dlt {dlt.__version__} with pyarrow {pa.__version__} on Python {platform.python_version()}"
print(json.dumps({"seconds": seconds, "versions": versions}))
