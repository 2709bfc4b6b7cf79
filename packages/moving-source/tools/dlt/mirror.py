"""dlt's rest_api source: lists, the details of each ticket, an incremental parameter with a lag. SORT is the order of the list. With
END a 422 ends it, and the next run goes on from there.

https://dlthub.com/docs/dlt-ecosystem/verified-sources/rest_api/basic
https://dlthub.com/docs/general-usage/incremental/lag
At night: https://dlthub.com/docs/general-usage/pipeline#refresh-pipeline-data-and-state
"""

import os
import sys
import time

import dlt
import requests
from dlt.sources.helpers.rest_client.paginators import PageNumberPaginator
from dlt.sources.rest_api import rest_api_source


class Session(requests.Session):
    """dlt's own retry waits for a header Retry-After. This service has Rate-Limit-Reset."""

    def send(self, request, **options):
        for _ in range(30):
            try:
                response = super().send(request, **options)
            except requests.ConnectionError:
                time.sleep(1)
                continue
            except requests.HTTPError as error:  # A resource with `response_actions` raises from within.
                response = error.response
            left, reset = (int(response.headers.get(f"Rate-Limit-{name}", 1)) for name in ("Remaining", "Reset"))
            if response.status_code != 429 and response.status_code < 500:
                if left < 2:
                    time.sleep(reset)
                return response
            time.sleep(reset)
        raise OSError(f"{request.url} could not be read")


tickets = {"per_page": 100, "sort": os.environ["SORT"]}
tickets["since_updated_at"] = {
    "type": "incremental",
    "cursor_path": "updated_at",
    "initial_value": "2000-01-01T00:00:00Z",
    "lag": float(os.environ["LOOKBACK"]),
}
end = [{"status_code": 422, "action": "ignore"}] if os.environ.get("END") else []
labels = {"label_ids": {"data_type": "json"}}
source = rest_api_source(
    {
        "client": {
            "base_url": os.environ["SOURCE_URL"] + "/",
            "auth": {"type": "bearer", "token": os.environ["SOURCE_TOKEN"]},
            "session": Session(),
            "paginator": PageNumberPaginator(base_page=1, total_path=None, stop_after_empty_page=True),
        },
        "resource_defaults": {"primary_key": "id", "write_disposition": "merge"},
        "resources": [
            {"name": "users", "endpoint": {"path": "users", "paginator": "single_page"}},
            {"name": "customers", "endpoint": {"path": "customers", "params": {"per_page": 100, "sort": "created_at"}}},
            {"name": "tickets", "columns": labels, "endpoint": {"path": "tickets", "params": tickets, "response_actions": end}},
            {
                "name": "details",
                "columns": labels,
                "endpoint": {
                    "path": "tickets/{resources.tickets.id}",
                    "params": {"embed": "messages"},
                    "paginator": "single_page",
                    "response_actions": [{"status_code": 404, "action": "ignore"}],
                },
            },
        ],
    }
)
pipeline = dlt.pipeline(
    pipeline_name="desk",
    pipelines_dir=os.environ["STATE"],
    dataset_name="desk",
    destination=dlt.destinations.postgres(os.environ["WAREHOUSE"]),
)
again = {"refresh": "drop_data", "write_disposition": "replace"} if sys.argv[1] == "nightly" else {}
print(pipeline.run(source, **again))
