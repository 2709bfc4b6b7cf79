#!/usr/bin/env python3
"""Installs the tools, runs one of them in a world that moves, keeps what came of it, and makes the table.

    python3 bench.py install [TOOL …]
    python3 bench.py run TOOL SCENARIO --seed N
    python3 bench.py all --seeds 5   (each tool, scenario and seed that has no result yet)
    python3 bench.py table

MOVING_SOURCE_HOME is where tools are installed (default: .installed beside this file).
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from signal import SIGTERM
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

import postgres
from scenarios import LOOKBACK_SECONDS, RECOVERY_SECONDS, RHYTHM_SECONDS, SCENARIOS
from table import ENDED, table, wrong
from warehouse import Given, Own

HERE = Path(__file__).resolve().parent
HOME = Path(os.environ.get("MOVING_SOURCE_HOME", HERE / ".installed"))
RESULTS = HERE / "results" / "results.jsonl"
LONGEST_SECONDS = 540
keeping = threading.Lock()


def tools():
    """Each variant of each tool, by its name."""
    found = {}
    for file in sorted((HERE / "tools").glob("*/tool.json")):
        tool = json.loads(file.read_text())
        for name, variant in tool["variants"].items():
            found[name] = {**tool, **variant, "folder": file.parent}
    return found


def installed(tool):
    return HOME / tool["folder"].name


def install(names):
    """Each tool into a virtual environment of its own, from the index that pip is set up with."""
    wanted = {tool["folder"]: tool for name, tool in tools().items() if not names or {name, tool["folder"].name} & set(names)}
    failed = []
    for folder, tool in wanted.items():
        for place, packages in environments(tool).items():
            print(f"{folder.name}: {', '.join(packages)}", flush=True)
            make = [[sys.executable, "-m", "venv", place], [place / "bin" / "python", "-m", "pip", "install", "--quiet", *packages]]
            if any(subprocess.run(command).returncode != 0 for command in make):
                failed.append(folder.name)
                break
    if failed:
        sys.exit(f"could not be had: {', '.join(failed)}")


def environments(tool):
    """`python` is the environment of the tool, `beside` holds further ones: programs that must not share packages."""
    named = {"": tool.get("python"), **tool.get("beside", {})}
    base = installed(tool)
    return {base.with_name(f"{base.name}-{name}" if name else base.name): packages for name, packages in named.items() if packages}


def versions(tool):
    if "version" in tool:
        done = subprocess.run(command(tool, tool["version"]), cwd=tool["folder"], capture_output=True, text=True)
        return (done.stdout or done.stderr).strip().splitlines()[-1:]
    found = []
    for place, packages in environments(tool).items():
        names = [name.split("==")[0].split("[")[0] for name in packages]
        code = f"from importlib.metadata import version; print([n + ' ' + version(n) for n in {names!r}])"
        done = subprocess.run([place / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
        found += eval(done.stdout)
    return found


def command(tool, words):
    places = {"{python}": str(installed(tool) / "bin" / "python"), "{bin}": str(installed(tool) / "bin")}
    return [places.get(word, word) for word in words]


def lines_of_setup(tool):
    """Without blank lines, comments, the queries of the judge and the entry of this benchmark."""
    files = [file for file in tool["folder"].iterdir() if file.is_file() and file.name not in ("tables.sql", "tool.json")]
    lines = [line.strip() for file in files for line in file.read_text().splitlines()]
    return len([line for line in lines if line and not line.startswith("#")])


class Control:
    """The control port of a server, started for one run. `server` is its command."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.process = subprocess.Popen(self.server, stdout=subprocess.PIPE, text=True)
        addresses = json.loads(self.process.stdout.readline())
        self.source, self.port, self.token = addresses["source"], addresses["control"], addresses["token"]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def get(self):
        with urlopen(self.port, timeout=120) as response:
            return json.loads(response.read())

    def post(self, verb, **body):
        request = Request(f"{self.port}/{verb}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=120) as response:
                return json.loads(response.read())
        except HTTPError as error:
            raise RuntimeError(f"{verb}: {json.loads(error.read())['message']}") from None


def end(process, signal):
    """A tool that ignores SIGTERM for ten seconds is killed."""
    process.send_signal(signal)
    for _ in range(200):
        done, code, used = os.wait4(process.pid, os.WNOHANG)
        if done:
            return code, used
        time.sleep(0.05)
    os.killpg(process.pid, 9)
    _, code, used = os.wait4(process.pid, 0)
    return code, used


class Run:
    """A tool in a world: its runs, one after another, and the CPU of its PostgreSQL."""

    def __init__(self, tool, control, warehouse, database_url, state, the_pace):
        self.tool, self.control, self.warehouse, self.runs = tool, control, warehouse, []
        self.begun, self.log = time.monotonic(), os.path.join(state, "log")
        self.tables = (tool["folder"] / "tables.sql").read_text()
        self.copy = {"warehouse": database_url, "tables": self.tables}
        self.environment = {
            **os.environ,
            **tool["env"],
            **{"SOURCE_URL": control.source, "SOURCE_TOKEN": control.token, "WAREHOUSE": database_url, "STATE": state},
            **{"HOME": state, "TMPDIR": state, "LOOKBACK": str(LOOKBACK_SECONDS), "PERIOD": str(the_pace["period_seconds"])},
            **{"CREDITS": str(the_pace["credits"]), "REQUESTS_PER_SECOND": str(the_pace["requests_per_second"])},
        }

    def once(self, phase, kill_after=None, look=None):
        """One run: its exit code, its time, its CPU and memory with all its children, and the CPU of PostgreSQL.

        `look` is called each half second, and says whether it is enough. A tool that stays is ended then, or after its time.
        Where somebody looks, PostgreSQL works for that too, so its CPU is not counted."""
        begun, before = time.monotonic(), self.warehouse.cpu_seconds()
        looked, enough = begun, False
        stays = self.tool.get("stays") if phase == "again" else None
        with open(self.log, "ab") as output:
            process = subprocess.Popen(
                [*command(self.tool, self.tool["run"]), phase],
                **{"cwd": self.tool["folder"], "env": self.environment, "stdout": output, "stderr": output, "start_new_session": True},
            )
            status = None
            while status is None:
                done, code, used = os.wait4(process.pid, os.WNOHANG)
                now = time.monotonic()
                if done:
                    status = os.waitstatus_to_exitcode(code)
                elif (kill_after and now - begun > kill_after) or now - self.begun > LONGEST_SECONDS:
                    os.killpg(process.pid, 9)
                    _, _, used = os.wait4(process.pid, 0)
                    status = "killed" if kill_after else ENDED
                elif stays and (enough if look else now - begun > stays):
                    code, used = end(process, SIGTERM)
                    status = os.waitstatus_to_exitcode(code)
                else:
                    if look and not enough and now - looked > 0.5:
                        looked, enough = now, look()
                    time.sleep(0.05)
            process.returncode = 0
        if self.tool.get("stays") or status == "killed":  # Nothing of it works on.
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass
        after = self.warehouse.cpu_seconds()
        self.runs.append(
            {
                "phase": phase,
                "exit": status,
                "seconds": round(time.monotonic() - begun, 1),
                "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
                "postgres_cpu_seconds": None if look or before is None else round(after - before, 1),
                "memory_mb": round(used.ru_maxrss / 1024),
            }
        )
        return enough

    def rhythm(self, enough):
        """Runs `again`, each some seconds after the last one began, until it is enough."""
        over = False
        while not over:
            begun = time.monotonic()
            over = self.once("again", look=enough) or enough()
            while not over and time.monotonic() - begun < RHYTHM_SECONDS:
                time.sleep(0.5)
                over = enough()

    def phase(self, name):
        self.control.post("drive", phase=name)

    def look(self):
        return self.control.post("look", **self.copy)["equal"]

    def watch(self, moving, still):
        begun = time.monotonic()
        self.control.post("drive", watch=True, move=True)
        standing = False

        def enough():
            nonlocal standing
            if not standing and time.monotonic() - begun > moving:
                self.control.post("stop")
                standing = True
            self.look()
            return time.monotonic() - begun > moving + still

        self.rhythm(enough)

    def recover(self, outage=0):
        """Seconds and credits until the copy equals the truth; null: it did not in that time. First each request fails for a while."""
        begun, before = time.monotonic(), len(self.runs)
        found, failing = {"seconds": None, "credits": None}, outage > 0
        if failing:
            self.control.post("drive", pace={"failures": 1})

        def enough():
            nonlocal begun, failing
            if failing and time.monotonic() - begun > outage:
                self.control.post("stop")
                self.control.post("drive", pace={"failures": 0}, phase="recover")
                begun, failing = time.monotonic(), False
            if failing:
                return False
            passed = time.monotonic() - begun
            if self.look():
                found.update(seconds=round(passed, 1), credits=self.control.get()["phases"][-1]["credits"])
            return found["seconds"] is not None or passed > RECOVERY_SECONDS

        self.rhythm(enough)
        for run in self.runs[before:] if outage else []:  # A run may well fail then.
            run["exit"] = f"outage, {run['exit']}"
        return found

    def step(self, step, what, chance, result):
        if step == "judge":
            result["judged"][what[0]] = self.control.post("judge", **self.copy)
        elif step == "move":
            self.control.post("drive", move=True)
        elif step == "drive":
            self.control.post("drive", changes=what[0])
        elif step == "stop":
            self.control.post("stop")
        else:
            self.phase(what[0] if step in ("run", "kill") else step)
            if step == "run":
                self.once(what[0])
            elif step == "kill":
                self.once(what[0], kill_after=chance.uniform(*what[1:]))
            elif step in ("recover", "outage"):
                result["recovery"] = self.recover(*what)
            else:
                self.watch(*what)
            self.phase("idle")


def machine(database):
    model = ""
    if os.path.exists("/proc/cpuinfo"):
        model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "cpu": model,
        "python": platform.python_version(),
        "postgres": database.run("show server_version")[0][0],
    }


def run(name, scenario_name, seed, options):
    """One tool in one world. `options`: the command line, with --database, --server and --log."""
    tool, scenario, chance = tools()[name], SCENARIOS[scenario_name], random.Random(seed)
    begun, state = time.monotonic(), tempfile.mkdtemp(prefix="moving-source-")
    database = f"moving_source_{os.getpid()}_{threading.get_ident()}"
    result = {"date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "tool": name, "label": tool["label"]}
    result |= {"scenario": scenario_name, "seed": seed, "pace": scenario["pace"], "versions": versions(tool), "lines": lines_of_setup(tool)}
    if options.server:
        result["server"] = options.server
    server = options.server.split() if options.server else [sys.executable, HERE / "server.py"]
    own = Given(options.database) if options.database else Own()
    with own as warehouse, postgres.Connection(warehouse.url) as admin, Control(server) as control:
        result["machine"] = machine(admin)
        admin.run(f"create database {database}")
        url = urlunsplit(urlsplit(warehouse.url)._replace(path=f"/{database}"))
        started = control.post("start", world=scenario["world"], seed=seed, pace=scenario["pace"])
        control.source = started.get("source", control.source)
        one = Run(tool, control, warehouse, url, state, scenario["pace"])
        result |= {"runs": one.runs, "judged": {}}
        try:
            for step, *what in scenario["steps"]:
                one.step(step, what, chance, result)
            result["phases"] = result["judged"]["end"]["phases"]
            for judged in result["judged"].values():
                del judged["phases"]
        finally:
            if options.log and os.path.exists(one.log):
                shutil.copy(one.log, options.log)
            shutil.rmtree(state, ignore_errors=True)
            admin.run(f"drop database if exists {database} with (force)")
    result["seconds"] = round(time.monotonic() - begun)
    return result


def results():
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def keep(result):
    with keeping, open(RESULTS, "a") as file:
        file.write(json.dumps(result) + "\n")


def run_all(options):
    """What is there is not run again: remove its line to do so. A run that cannot be made is said, and the next one begins."""
    there = {(one["tool"], one["scenario"], one["seed"]) for one in results() if one.get("server") == options.server}
    found = tools()
    # Seed after seed, so that what is interrupted has as many seeds of each tool.
    wanted = [
        (name, scenario, seed)
        for seed in range(1, options.seeds + 1)
        for scenario in options.scenarios
        for name in options.tools
        if seed <= SCENARIOS[scenario].get("seeds", options.seeds) and (name, scenario, seed) not in there
        if scenario in found[name].get("only", SCENARIOS)
    ]
    begun, done = time.monotonic(), 0

    def make(one):
        nonlocal done
        name, scenario, seed = one
        try:
            result = run(name, scenario, seed, options)
            keep(result)
            said = f"{result['seconds']} s, {wrong(result)} tickets wrong"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        done += 1
        left = (time.monotonic() - begun) / done * (len(wanted) - done) / 60
        print(f"{done} of {len(wanted)}: {name}, {scenario}, seed {seed}: {said}; {left:.0f} min left", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(options.lanes) as lanes:
        list(lanes.map(make, wanted))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = options.add_subparsers(dest="verb", required=True)
    verbs.add_parser("install").add_argument("tools", nargs="*")
    one = verbs.add_parser("run")
    one.add_argument("tool", choices=list(tools()))
    one.add_argument("scenario", choices=list(SCENARIOS))
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--keep", action="store_true", help="add the result to results/results.jsonl")
    every = verbs.add_parser("all")
    every.add_argument("--tools", nargs="+", default=list(tools()), choices=list(tools()))
    every.add_argument("--scenarios", nargs="+", default=list(SCENARIOS), choices=list(SCENARIOS))
    every.add_argument("--seeds", type=int, default=5)
    every.add_argument("--lanes", type=int, default=4, help="so many runs at once (4): most of them wait for credits")
    for verb in (one, every):
        verb.add_argument("--database", help="a PostgreSQL that is there; without it each run has one of its own, whose CPU is measured")
        verb.add_argument("--server", help="the command of another server with the same control port")
        verb.add_argument("--log", help="a file for what the tool writes")
    verbs.add_parser("table").add_argument("--print", action="store_true", help="do not write it")
    chosen = options.parse_args()
    if chosen.verb == "install":
        install(chosen.tools)
    elif chosen.verb == "table":
        print(table(results()), end="") if chosen.print else (RESULTS.parent / "README.md").write_text(table(results()))
    elif chosen.verb == "all":
        run_all(chosen)
    else:
        result = run(chosen.tool, chosen.scenario, chosen.seed, chosen)
        print(json.dumps(result))
        if chosen.keep:
            keep(result)


if __name__ == "__main__":
    main()
