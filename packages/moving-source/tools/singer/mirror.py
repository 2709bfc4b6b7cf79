"""tap | target. The state is the last line that the target has acknowledged; at night everything is read, without a state.

https://hub.meltano.com/singer/spec: catalog, state, forced-replication-method. Nightly: ACTIVATE_VERSION deletes what was not seen.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

here, state = Path(__file__).resolve().parent, Path(os.environ["STATE"])
night = sys.argv[1] == "nightly"
tap = [sys.executable, str(here / "tap.py")]
target = Path(f"{sys.prefix}-target") / "bin" / "target-postgres"
warehouse = urlsplit(os.environ["WAREHOUSE"])


def write(name, content):
    (state / name).write_text(json.dumps(content))
    return str(state / name)


config = write("tap.json", {"emit_activate_version_messages": night})
catalog = json.loads(subprocess.run([*tap, "--config", config, "--discover"], check=True, capture_output=True).stdout)
if night:
    for stream in catalog["streams"]:
        stream["replication_method"] = "FULL_TABLE"
        stream.pop("replication_key", None)
        for part in stream["metadata"]:
            if not part["breadcrumb"]:
                part["metadata"] |= {"selected": True, "forced-replication-method": "FULL_TABLE"}
extract = [*tap, "--config", config, "--catalog", write("catalog.json", catalog)]
if (state / "state.json").exists() and not night:
    extract += ["--state", str(state / "state.json")]
load = [
    str(target),
    "--config",
    write(
        "target.json",
        {
            "host": warehouse.hostname,
            "port": warehouse.port or 5432,
            "user": unquote(warehouse.username),
            "password": unquote(warehouse.password or "none"),
            "database": warehouse.path[1:],
            "default_target_schema": "desk",
            "add_record_metadata": True,
            "hard_delete": True,
        },
    ),
]
reader = subprocess.Popen(extract, stdout=subprocess.PIPE)
writer = subprocess.run(load, stdin=reader.stdout, capture_output=True, text=True)
print(writer.stderr[-2000:])
codes = [reader.wait(), writer.returncode]
if lines := writer.stdout.strip().splitlines():
    last = json.loads(lines[-1])
    if not night:
        write("state.json", last.get("value", last))
sys.exit(max(abs(code) for code in codes))
