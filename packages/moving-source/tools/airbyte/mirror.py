"""Airbyte: the manifest beside this file, run by `source-declarative-manifest`, stored by PyAirbyte in PostgreSQL.

https://docs.airbyte.com/developers/pyairbyte: get_source with local_executable, PostgresCache, write_strategy, force_full_refresh.
`get_source(source_manifest=…)` is not used: in PyAirbyte 0.71.3 such a source is built without its saved state.
"""

import os
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import airbyte
import yaml
from airbyte.caches import PostgresCache

here, state = Path(__file__).resolve().parent, os.environ["STATE"]
text = (here / "manifest.yaml").read_text()
for word, value in (("PERIOD", "PERIOD"), ("CREDITS", "CREDITS"), ("ORDER", "SORT")):
    text = text.replace(word, os.environ[value])
manifest = yaml.safe_load(text)
if os.environ["UNTIL"] == "empty page":  # The reference of PageIncrement has `page_size` as optional. Without it pages end with an empty one.
    pages = manifest["definitions"]["pages"]
    del pages["page_size_option"], pages["pagination_strategy"]["page_size"]
    for stream in (manifest["definitions"]["tickets"], manifest["streams"][1]):
        stream["retriever"]["requester"]["request_parameters"]["per_page"] = "100"
source = airbyte.get_source(
    "source-desk",
    local_executable=Path(sys.executable).parent / "source-declarative-manifest",
    config={
        "url": os.environ["SOURCE_URL"],
        "token": os.environ["SOURCE_TOKEN"],
        "lookback": f"PT{os.environ['LOOKBACK']}S",
        "__injected_declarative_manifest": manifest,
    },
)
source.select_all_streams()
warehouse = urlsplit(os.environ["WAREHOUSE"])
cache = PostgresCache(
    host=warehouse.hostname,
    port=warehouse.port or 5432,
    username=unquote(warehouse.username),
    password=unquote(warehouse.password or "none"),
    database=warehouse.path[1:],
    schema_name="desk",
    cache_dir=state,
)
night = sys.argv[1] == "nightly"
options = {"write_strategy": "replace", "force_full_refresh": True} if night else {"write_strategy": "merge"}
print("records:", source.read(cache=cache, **options).processed_records)
