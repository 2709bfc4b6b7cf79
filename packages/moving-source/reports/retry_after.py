"""How long a tool waits after a 429 with `Retry-After: 8`. It needs the tool alone, and runs with what it is set to by itself.

python retry_after.py singer | dlt | airbyte
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

WAIT = 8


class Api(BaseHTTPRequestHandler):
    arrived = []

    def do_GET(self):
        Api.arrived.append(time.monotonic())
        early = len(Api.arrived) > 1 and Api.arrived[-1] - Api.arrived[0] < WAIT
        refused = len(Api.arrived) == 1 or early
        body = json.dumps([{"id": 1}]).encode()
        self.send_response(429 if refused else 200)
        if refused:
            self.send_header("Retry-After", str(round(WAIT - (Api.arrived[-1] - Api.arrived[0]))))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def singer(url):
    from singer_sdk import Tap
    from singer_sdk import typing as th
    from singer_sdk.streams import RESTStream

    class Items(RESTStream):
        name, path, url_base, primary_keys = "items", "/items", url, ("id",)
        schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    class Desk(Tap):
        name, config_jsonschema = "tap-desk", th.PropertiesList().to_dict()

        def discover_streams(self):
            return [Items(self)]

    Desk().sync_all()


def dlt(url):
    from dlt.sources.rest_api import rest_api_source

    source = rest_api_source({"client": {"base_url": url}, "resources": [{"name": "items", "endpoint": {"path": "items", "paginator": "single_page"}}]})
    list(source.resources["items"])


def airbyte(url):
    from airbyte_cdk.models import ConfiguredAirbyteCatalogSerializer
    from airbyte_cdk.sources.declarative.concurrent_declarative_source import ConcurrentDeclarativeSource

    stream = {
        "type": "DeclarativeStream",
        "name": "items",
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester", "url_base": url, "path": "items"},
            "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}},
        },
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {"id": {"type": "integer"}}}},
    }
    manifest = {"version": "7.0.0", "type": "DeclarativeSource", "check": {"type": "CheckStream", "stream_names": ["items"]}, "streams": [stream]}
    chosen = {"stream": {"name": "items", "json_schema": {}, "supported_sync_modes": ["full_refresh"]}}
    catalog = ConfiguredAirbyteCatalogSerializer.load({"streams": [{**chosen, "sync_mode": "full_refresh", "destination_sync_mode": "overwrite"}]})
    source = ConcurrentDeclarativeSource(catalog=catalog, config={}, state=[], source_config=manifest)
    list(source.read(source.logger, {}, catalog, []))


api = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=api.serve_forever, daemon=True).start()
try:
    {"singer": singer, "dlt": dlt, "airbyte": airbyte}[sys.argv[1]](f"http://127.0.0.1:{api.server_port}")
    ended = "it ended well"
except Exception as error:
    ended = f"it failed: {type(error).__name__}"
waits = [f"{later - Api.arrived[0]:.1f}" for later in Api.arrived[1:]]
print(f"{sys.argv[1]}: asked again after {', '.join(waits)} s, refused {sum(float(wait) < WAIT for wait in waits)} times more; {ended}", file=sys.stderr)
