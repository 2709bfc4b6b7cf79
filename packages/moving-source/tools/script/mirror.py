"""What one writes in an afternoon: a cursor, pages, and an upsert of each ticket with its messages.

WALK=pages takes page 1, 2, 3 … of the list by time of change. WALK=seconds takes the first page again and again, each time
from the last second that it has seen, so that no row can move behind it. WALK=margin begins a second earlier, and takes no short page
for the last one.
"""

import json
import os
import sys
import time
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlencode, urlsplit

sys.path.append(str(Path(__file__).resolve().parents[2]))
from postgres import Connection, literal  # noqa: E402

source = urlsplit(os.environ["SOURCE_URL"])
http = HTTPConnection(source.hostname, source.port)
headers = {"Authorization": f"Bearer {os.environ['SOURCE_TOKEN']}"}
night = sys.argv[1] == "nightly"


def get(path, **query):
    """The answer, or None for a 404. It waits as the headers say, before the credits are used up."""
    for _ in range(30):
        try:
            http.request("GET", f"{source.path}{path}?{urlencode(query)}", headers=headers)
            response = http.getresponse()
        except (HTTPException, OSError):
            http.close()
            time.sleep(1)
            continue
        body, reset = response.read(), int(response.headers.get("Rate-Limit-Reset", 1))
        if response.status == 200:
            if int(response.headers["Rate-Limit-Remaining"]) < 2:
                time.sleep(reset)
            return json.loads(body)
        if response.status == 404:
            return None
        if response.status != 429 and response.status < 500:
            break
        time.sleep(reset)
    raise SystemExit(f"{path} could not be read")


database = Connection(os.environ["WAREHOUSE"])
database.run(
    "create schema if not exists desk; create table if not exists desk.cursor (at text);"
    + "".join(f"create table if not exists desk.{name} (id text primary key, doc jsonb);" for name in ("tickets", "customers", "users"))
)
seen = {"tickets": set(), "customers": set(), "users": set()}


def store(table, records):
    seen[table].update(record["id"] for record in records)
    database.run(
        f"insert into desk.{table} select x->>'id', x from jsonb_array_elements({literal(json.dumps(records))}) x"
        " on conflict (id) do update set doc = excluded.doc"
    )


def pages(path, **query):
    page = 1
    while records := get(path, per_page=100, page=page, **query):
        yield records
        page += 1


def shifted(time, by):
    return (datetime.fromisoformat(time.replace("Z", "+00:00")) - timedelta(seconds=by)).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(since, margin):
    known, page = {}, 1
    while records := get("/tickets", sort="updated_at", since_updated_at=since, per_page=100, page=page):
        yield [record for record in records if known.get(record["id"]) != record]
        known.update((record["id"], record) for record in records)
        if len(records) < 100 and not margin:
            return
        last = shifted(records[-1]["updated_at"], margin)
        since, page = (last, 1) if last > since else (since, page + 1)


store("users", get("/users"))
for records in pages("/customers", sort="created_at"):
    store("customers", records)

begun = database.run("select at from desk.cursor")
cursor = begun[0][0] if begun and not night else "2000-01-01T00:00:00Z"
since = shifted(cursor, int(os.environ["LOOKBACK"]))
margin = {"seconds": 0, "margin": 1}.get(os.environ["WALK"])
walk = pages("/tickets", sort="updated_at", since_updated_at=since) if margin is None else seconds(since, margin)
for records in walk:
    if details := [detail for record in records if (detail := get(f"/tickets/{record['id']}", embed="messages"))]:
        store("tickets", details)
    cursor = max([cursor, *(record["updated_at"] for record in records)])
    database.run(f"delete from desk.cursor; insert into desk.cursor values ({literal(cursor)})")

if night:  # What the whole list did not show is gone.
    for table in ("tickets", "customers"):
        ids = json.dumps(sorted(seen[table]))
        database.run(f"delete from desk.{table} where not {literal(ids)}::jsonb ? id")
print(f"done: {len(seen['tickets'])} tickets, {len(seen['customers'])} customers")
