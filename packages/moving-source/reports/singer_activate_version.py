"""What a tap of the Singer SDK says at the end of each parent of a full-table child stream. It needs `singer-sdk` alone."""

import io
import json
import sys
from contextlib import redirect_stdout

from singer_sdk import Stream, Tap
from singer_sdk import typing as th

SCHEMA = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()


class Parents(Stream):
    name, schema, primary_keys = "parents", SCHEMA, ("id",)

    def get_records(self, context):
        yield from ({"id": 1}, {"id": 2})

    def get_child_context(self, record, context):
        return {"parent": record["id"]}


class Children(Stream):
    name, schema, primary_keys, parent_stream_type, state_partitioning_keys = "children", SCHEMA, ("id",), Parents, ()

    def get_records(self, context):
        yield {"id": context["parent"] * 10}


class Desk(Tap):
    name, config_jsonschema = "tap-desk", th.PropertiesList().to_dict()

    def discover_streams(self):
        return [Parents(self), Children(self)]


text = io.StringIO()
with redirect_stdout(text):
    Desk(config={"emit_activate_version_messages": True}).sync_all()
for line in text.getvalue().splitlines():
    message = json.loads(line)
    if message.get("stream") == "children" and message["type"] != "SCHEMA":
        print(message["type"], message.get("version"), message.get("record", ""), file=sys.stderr)
