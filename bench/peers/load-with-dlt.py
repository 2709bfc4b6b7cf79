"""dlt, as it comes, with tickets: one load, in a process of its own.

    python load-with-dlt.py <database> <url of the source> <token>
"""

import json
import platform
import sys
import time
from datetime import datetime, timedelta
from urllib.parse import urlparse

import dlt
from dlt.sources.helpers import requests

PER_PAGE = 100
database, url, token = sys.argv[1:]


@dlt.resource(name="tickets", primary_key="id", write_disposition="merge")
def tickets():
    """In order of creation, one page after the other."""
    since = None
    while True:
        page = requests.get(
            f"{url}/tickets",
            params={"sort": "created_at", "per_page": PER_PAGE, "since_created_at": since},
            headers={"authorization": f"Bearer {token}"},
        ).json()
        # Before it is given away: dlt writes its own columns into it.
        last = page[-1]["created_at"] if page else None
        full = len(page) == PER_PAGE
        yield page
        if not full:
            return
        # It is not known whether `since` includes its own second.
        following = (datetime.fromisoformat(last) - timedelta(seconds=1)).isoformat()
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
pipeline.run(tickets())
seconds = time.perf_counter() - begun
versions = f"dlt {dlt.__version__} on Python {platform.python_version()}"
print(json.dumps({"seconds": seconds, "versions": versions}))
