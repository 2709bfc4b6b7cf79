#!/usr/bin/env python3
"""A second server behind the same control port: the sandbox of this repository, another program by other people's rules of chance.

    python3 bench.py run TOOL SCENARIO --server "python3 second/sandbox.py"

It shares nothing with server.py but the control port and the judge. SANDBOX names its command. It knows first loads, increments,
both readings of `since` and of the depth, and short pages; it has its own kinds of change, so a number of changes is all that is taken
from a scenario. Nothing is listed late.
"""

import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import Request, urlopen

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import judge  # noqa: E402
import server  # noqa: E402

SANDBOX = os.environ.get("SANDBOX", f"node {HERE.parents[1] / 'sandbox/src/main.ts'}").split()
# A change that no list shows by time.
SILENT = ("edit of a note", "removal of a message")
KNOWN = {"tickets", "customers", "since", "depth", "beyond", "page_cap", "late_share", "late_seconds", "bulk", "changes"}


class Sandbox:
    """What the control port does, by the sandbox's own admin port."""

    process = None

    def start(self, world=None, seed=1, pace=None):
        world, pace = {**server.WORLD, **(world or {})}, {**server.PACE, **(pace or {})}
        if unknown := {name for name in world if world[name] != server.WORLD[name]} - KNOWN:
            raise ValueError(f"the sandbox has no {', '.join(sorted(unknown))}")
        self.end()
        words = {
            **{"port": 0, "admin-port": 0, "token": server.TOKEN, "seed": seed, "books-activity": 0, "volumes": 5},
            **{"tickets": world["tickets"], "customers": world["customers"], "depth": world["depth"]},
            **{"credits": pace["credits"], "period": pace["period_seconds"], "requests-per-second": pace["requests_per_second"]},
            **{"since": world["since"], "beyond-depth": "error" if world["beyond"] == "422" else "empty"},
            **({"page-cap": world["page_cap"]} if world["page_cap"] < 100 else {}),
        }
        command = [*SANDBOX, "--json", *[word for name, value in words.items() for word in (f"--{name}", str(value))]]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        text = ""
        while not text.endswith("\n}\n"):
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the sandbox did not start")
            text += line
        self.sandbox, self.bulk, self.rate = json.loads(text), world["bulk"], pace["changes_per_second"]
        self.moving, self.phases, self.counted = False, [], {"credits": 0, "requests": 0, "refused": 0}
        self.before = {name: set() for name in judge.FIELDS}
        self.deleted, self.silent, self.touched = set(), set(), set()
        self.lock = threading.RLock()
        threading.Thread(target=self.move, args=(self.process,), daemon=True).start()
        return self.status()

    def end(self):
        if self.process:
            self.process.terminate()
            self.process.wait()

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.sandbox["admin_url"] + path, data, {"Content-Type": "application/json"}), timeout=60) as response:
            return response.read().decode()

    def change(self, count):
        with self.lock:
            for change in json.loads(self.ask("/changes", {"count": count})) if count else []:
                if change["kind"] == "deletion":
                    self.deleted.add(change["id"])
                elif change["kind"] in SILENT:
                    self.silent.add(change["id"])
                self.touched.add(change["id"])

    def move(self, process):
        begun = made = 0
        while process.poll() is None:
            if self.moving and not begun:
                begun, made = time.monotonic(), 0
            elif not self.moving:
                begun = 0
            due = math.floor((time.monotonic() - begun) * self.rate) if begun else 0
            if due > made:
                self.change(due - made)
                made = due
            time.sleep(0.05)

    def drive(self, phase=None, move=None, changes=None):
        if phase is not None:
            self.phase(phase)
        for kind, count in (changes or {}).items():
            if kind == "bulk":
                for _ in range(count):
                    self.touched |= set(json.loads(self.ask("/bulk", {"count": self.bulk}))["ids"])
            else:
                self.change(count)
        self.moving = self.moving or bool(move)
        return self.status()

    def phase(self, name):
        """The least that a run needs is reckoned as server.py does."""
        counts = json.loads(self.ask("/clients"))["helpdesk"]["totals"]
        if self.phases:
            for word in self.counted:
                self.phases[-1][word] += counts[word] - self.counted[word]
        self.counted = {word: counts[word] for word in self.counted}
        if name != "idle":
            records = json.loads(self.ask("/truth/counts"))
            pages = lambda count: max(1, math.ceil(count / 100))
            tickets = {ticket["id"] for ticket in self.records("tickets")}
            changed = len(self.touched & tickets) if self.phases else len(tickets)
            least = 1 + pages(records["customers"]) + pages(changed) + 2 * changed + (pages(len(tickets)) if name == "nightly" else 0)
            self.phases.append({"name": name, "credits": 0, "requests": 0, "refused": 0, "other_refused": 0, "least": least})
        self.touched = set()

    def records(self, kind):
        return [json.loads(line) for line in self.ask(f"/truth/{kind}").splitlines()]

    def truth(self):
        tickets = {ticket["id"]: {**ticket, "messages": []} for ticket in self.records("tickets")}
        for message in self.records("messages"):
            tickets[message["ticket_id"]]["messages"].append(message)
        customers = {customer["id"]: customer for customer in self.records("customers")}
        return {"tickets": tickets, "customers": customers, "deleted": self.deleted, "silent": self.silent}

    def stop(self):
        with self.lock:
            self.moving = False
        return self.status()

    def judge(self, tables=None, warehouse=None, rows=None):
        rows = judge.read(warehouse, tables) if rows is None else rows
        with self.lock:
            verdict, self.before = judge.verdict(self.truth(), rows, self.before)
        return {**verdict, "phases": self.phases}

    def look(self, tables=None, warehouse=None, rows=None):
        rows = judge.read(warehouse, tables) if rows is None else rows
        with self.lock:
            return {"equal": judge.equal(self.truth(), rows)}

    def status(self):
        if self.process is None:
            return {"started": False}
        return {"started": True, "moving": self.moving, "phases": self.phases, "source": self.sandbox["url"]}


def main():
    bench = Sandbox()
    control = f"http://127.0.0.1:{server.serve(0, server.ControlHandler, bench)}"
    # Its own port is known once a world has begun: /start says it.
    print(json.dumps({"source": None, "control": control, "token": server.TOKEN}), flush=True)
    try:
        threading.Event().wait()
    finally:
        bench.end()


if __name__ == "__main__":
    import signal

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    main()
