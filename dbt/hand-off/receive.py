"""Starts dbt when Shelfdesk hands off a complete load: a receiver of its webhook, with Python's own library only.

    HANDOFF_SECRET=whsec_… python3 receive.py dbt build --profiles-dir .

It keeps each hand-off in a folder before it answers, so that a kill loses none, and drops doubles by their id. Hand-offs that
arrive while dbt runs share the next run. One that dbt did not finish is tried again with the next hand-off, or at the start.
COMPLETE_THROUGH is that of the hand-off that is furthest behind.
"""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = int(os.environ.get("PORT", "8099"))
FOLDER = Path(os.environ.get("HANDOFF_FOLDER", "hand-offs"))
SECRET = os.environ["HANDOFF_SECRET"].removeprefix("whsec_")
KEY = base64.b64decode(SECRET + "=" * (-len(SECRET) % 4))
COMMAND = sys.argv[1:] or ["dbt", "build", "--profiles-dir", "."]
# A message that somebody recorded and repeats later is refused.
TOLERANCE_SECONDS = 300
LONGEST = 1_000_000

arrived = threading.Event()
keeping = threading.Lock()


def is_signed(headers, body):
    try:
        age = time.time() - int(headers["webhook-timestamp"])
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        wanted = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest())
        given = [one.partition(",") for one in headers["webhook-signature"].split()]
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    right = any(version == "v1" and hmac.compare_digest(mac.encode(), wanted) for version, _, mac in given)
    return right and abs(age) <= TOLERANCE_SECONDS


def keep(message, body):
    """True if it is new. It is on the disk before the answer."""
    name = "".join(c for c in message["id"] if c.isalnum() or c in "_-") + ".json"
    with keeping:
        if (FOLDER / name).exists() or (FOLDER / "done" / name).exists():
            return False
        with open(FOLDER / f"{name}.new", "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.rename(FOLDER / f"{name}.new", FOLDER / name)
        # The name too must be on the disk.
        folder = os.open(FOLDER, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    return True


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            length = int(self.headers.get("content-length", ""))
        except ValueError:
            length = -1
        if not 0 <= length <= LONGEST:
            return self.answer(413)
        body = self.rfile.read(length)
        if not is_signed(self.headers, body):
            return self.answer(401)
        message = json.loads(body)
        if message["type"] == "hand_off.complete" and keep(message, body):
            arrived.set()
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


def work():
    while True:
        arrived.wait()
        arrived.clear()
        try:
            run()
        except Exception as error:
            # What waits is tried again with the next hand-off.
            print(f"it could not run: {error}", flush=True)


def run():
    waiting = sorted(FOLDER.glob("*.json"))
    if not waiting:
        return
    through = min(json.loads(one.read_bytes())["data"]["complete_through"] for one in waiting)
    print(f"complete through {through}: {' '.join(COMMAND)}", flush=True)
    # Without the secret.
    env = {name: value for name, value in os.environ.items() if name != "HANDOFF_SECRET"}
    ended = subprocess.run(COMMAND, env={**env, "COMPLETE_THROUGH": through}).returncode
    print(f"it ended with {ended}", flush=True)
    if ended == 0:
        for one in waiting:
            one.rename(FOLDER / "done" / one.name)


(FOLDER / "done").mkdir(parents=True, exist_ok=True)
arrived.set()
threading.Thread(target=work, daemon=True).start()
server = ThreadingHTTPServer(("127.0.0.1", PORT), Receiver)
print(f"listening at http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
