"""A record that comes twice in one read stands twice in PostgreSQL, under one primary key, with write strategy `merge`.

python pyairbyte_merge.py postgres://user:password@host:port/database
It needs `airbyte` alone, and an empty database.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

import airbyte
from airbyte.caches import PostgresCache


class Api(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps([{"id": 1, "state": "open"}, {"id": 1, "state": "closed"}]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


api = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=api.serve_forever, daemon=True).start()
schema = {"type": "object", "properties": {"id": {"type": "integer"}, "state": {"type": "string"}}}
stream = {
    "type": "DeclarativeStream",
    "name": "items",
    "primary_key": ["id"],
    "retriever": {
        "type": "SimpleRetriever",
        "requester": {"type": "HttpRequester", "url_base": f"http://127.0.0.1:{api.server_port}", "path": "items"},
        "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}},
    },
    "schema_loader": {"type": "InlineSchemaLoader", "schema": schema},
}
spec = {"type": "Spec", "connection_specification": {"type": "object", "additionalProperties": True, "properties": {}}}
manifest = {"version": "7.0.0", "type": "DeclarativeSource", "check": {"type": "CheckStream", "stream_names": ["items"]}, "spec": spec, "streams": [stream]}
url = urlsplit(sys.argv[1])
place = {"host": url.hostname, "port": url.port, "username": url.username, "password": url.password, "database": url.path[1:]}
cache = PostgresCache(**place, schema_name="twice")
source = airbyte.get_source("source-items", source_manifest=manifest, config={}, streams=["items"])
for turn in ("first", "second"):
    read = source.read(cache=cache, write_strategy="merge")
    print(f"{turn} read:", [(row["id"], row["state"]) for row in read["items"]], file=sys.stderr)
