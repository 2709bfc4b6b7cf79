"""PyAirbyte keeps the state of a declarative source, and does not read from it. It needs `airbyte` alone.

A local API has three records. The source is read twice into one cache; the queries that arrive are printed.
"""

import json
import shutil
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import airbyte
from airbyte.caches import DuckDBCache

RECORDS = [{"id": n, "updated_at": f"2026-01-0{n}T00:00:00Z"} for n in (1, 2, 3)]
FORM = "%Y-%m-%dT%H:%M:%SZ"


class Api(BaseHTTPRequestHandler):
    asked = []

    def do_GET(self):
        Api.asked.append(self.path)
        body = json.dumps(RECORDS).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


api = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=api.serve_forever, daemon=True).start()
manifest = {
    "version": "7.0.0",
    "type": "DeclarativeSource",
    "check": {"type": "CheckStream", "stream_names": ["items"]},
    "spec": {"type": "Spec", "connection_specification": {"type": "object", "additionalProperties": True, "properties": {}}},
    "streams": [
        {
            "type": "DeclarativeStream",
            "name": "items",
            "primary_key": ["id"],
            "retriever": {
                "type": "SimpleRetriever",
                "requester": {"type": "HttpRequester", "url_base": f"http://127.0.0.1:{api.server_port}", "path": "items"},
                "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}},
            },
            "incremental_sync": {
                "type": "DatetimeBasedCursor",
                "cursor_field": "updated_at",
                "datetime_format": FORM,
                "start_datetime": {"type": "MinMaxDatetime", "datetime": "2000-01-01T00:00:00Z", "datetime_format": FORM},
                "start_time_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "since"},
            },
            "schema_loader": {
                "type": "InlineSchemaLoader",
                "schema": {"type": "object", "properties": {"id": {"type": "integer"}, "updated_at": {"type": "string"}}},
            },
        }
    ],
}
ways = {
    "source_manifest": ({"source_manifest": manifest}, {}),
    "local_executable": (
        {"local_executable": Path(sys.executable).parent / "source-declarative-manifest"},
        {"__injected_declarative_manifest": manifest},
    ),
}
for name, (way, config) in ways.items():
    folder = tempfile.mkdtemp()
    cache = DuckDBCache(db_path=f"{folder}/cache.duckdb", cache_dir=folder)
    for turn in ("first", "second"):
        Api.asked.clear()
        source = airbyte.get_source("source-items", config=config, streams=["items"], **way)
        source.read(cache=cache)
        print(f"{name}, {turn} read: {Api.asked}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
