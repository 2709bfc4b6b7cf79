#!/usr/bin/env python3
"""Installs the tools, runs one of them in a world that moves, keeps what came of it, and makes the table.

    python3 bench.py install [TOOL …]
    python3 bench.py run TOOL SCENARIO --seed N --database postgres://…   (any database of a server that can make others)
    python3 bench.py all --seeds 5 --database postgres://…   (each tool, scenario and seed that has no result yet)
    python3 bench.py table

MOVING_SOURCE_HOME is where tools are installed (default: .installed beside this file).
"""

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from urllib.request import Request, urlopen
from urllib.parse import urlsplit, urlunsplit

import postgres

HERE = Path(__file__).resolve().parent
HOME = Path(os.environ.get("MOVING_SOURCE_HOME", HERE / ".installed"))
RESULTS = HERE / "results" / "results.jsonl"
LOOKBACK_SECONDS = 4
LONGEST_SECONDS = 540
PACE = {"changes_per_second": 4, "credits": 100, "period_seconds": 2, "requests_per_second": 180}

# What happens between two runs of a tool: most of it in one second.
BUSY = {"update": 60, "message": 20, "create": 20, "again": 10, "bulk": 1, "customer": 5, "customer_edit": 20}
LATE = {"tickets": 400, "late_share": 0.25, "bulk": 130}

# A scenario is a world and a list of steps. The word after `run` reaches the tool as its argument.
SCENARIOS = {
    "first-load": {
        "about": "900 tickets are loaded while they change; then the world stands still, and the tool runs once more",
        "world": {},
        "steps": [("move",), ("run", "first"), ("stop",), ("run", "again"), ("judge", "end")],
    },
    "first-load-3000": {
        "about": "The same with 3,000 tickets",
        "world": {"tickets": 3000},
        "steps": [("move",), ("run", "first"), ("stop",), ("run", "again"), ("judge", "end")],
    },
    "increments": {
        "about": "400 tickets; three times some 240 changes within a second, a quarter of them listed late, and changes during each run",
        "world": LATE,
        "steps": [
            *[("run", "first"), ("judge", "first"), ("move",)],
            *[("drive", BUSY), ("run", "again")] * 3,
            *[("stop",), ("run", "again"), ("judge", "end")],
        ],
    },
    "night": {
        "about": "900 tickets, 20 deletions, 20 silent edits; the nightly run of the tool while tickets change; then one run more",
        "world": {},
        "steps": [
            *[("run", "first"), ("judge", "first"), ("drive", {"delete": 20, "silent": 20}), ("move",)],
            *[("run", "nightly"), ("stop",), ("judge", "night"), ("run", "again"), ("judge", "end")],
        ],
    },
}
FIRST_LOAD = SCENARIOS["first-load"]["steps"]
SCENARIOS |= {
    "deep": {
        "about": "As first-load, but pages end after 500 tickets: a page beyond is a 422",
        "world": {"depth": 500, "beyond": "422"},
        "steps": FIRST_LOAD,
    },
    "deep-empty": {
        "about": "As first-load, but pages end after 500 tickets: a page beyond is empty",
        "world": {"depth": 500, "beyond": "empty"},
        "steps": FIRST_LOAD,
    },
    "exclusive": {**SCENARIOS["increments"], "about": "As increments, but `since` leaves out its own second", "world": {**LATE, "since": "exclusive"}},
    "failing": {
        "about": "As first-load, but two answers of a hundred are a 503 or none at all",
        "world": {},
        "pace": {"failures": 0.02},
        "steps": FIRST_LOAD,
    },
    "killed": {
        "about": "As first-load, but the tool is killed twice at a random moment (SIGKILL) before it may finish",
        "world": {},
        "steps": [("move",), ("kill", "first"), ("kill", "first"), *FIRST_LOAD[1:]],
    },
}


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
    """The control port of a server, started for one run."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, HERE / "server.py"], stdout=subprocess.PIPE, text=True)
        addresses = json.loads(self.process.stdout.readline())
        self.source, self.port, self.token = addresses["source"], addresses["control"], addresses["token"]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def post(self, verb, **body):
        request = Request(f"{self.port}/{verb}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=120) as response:
            return json.loads(response.read())


def run_tool(tool, phase, environment, log, seconds, ended="ended by the benchmark"):
    """One run of the tool: its exit code, its time, its CPU and memory with all its children."""
    begun = time.monotonic()
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [*command(tool, tool["run"]), phase],
            **{"cwd": tool["folder"], "env": environment, "stdout": output, "stderr": output, "start_new_session": True},
        )
        status = None
        while status is None:
            done, code, used = os.wait4(process.pid, os.WNOHANG)
            if done:
                status = os.waitstatus_to_exitcode(code)
            elif time.monotonic() - begun > seconds:
                os.killpg(process.pid, 9)
                _, _, used = os.wait4(process.pid, 0)
                status = ended
            else:
                time.sleep(0.05)
        process.returncode = 0 if isinstance(status, str) else status
    return {
        "phase": phase,
        "exit": status,
        "seconds": round(time.monotonic() - begun, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "memory_mb": round(used.ru_maxrss / 1024),
    }


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


def run(name, scenario_name, seed, server, keep_log=None):
    tool, scenario, chance = tools()[name], SCENARIOS[scenario_name], random.Random(seed)
    pace = {**PACE, **scenario.get("pace", {})}
    begun, state = time.monotonic(), tempfile.mkdtemp(prefix="moving-source-")
    database = f"moving_source_{os.getpid()}"
    log = os.path.join(state, "log")
    result = {"date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "tool": name, "label": tool["label"]}
    result |= {"scenario": scenario_name, "seed": seed, "pace": pace, "versions": versions(tool), "lines": lines_of_setup(tool)}
    result |= {"runs": [], "judged": {}}
    with postgres.Connection(server) as admin, Control() as control:
        result["machine"] = machine(admin)
        admin.run(f"create database {database}")
        try:
            warehouse = urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
            environment = {
                **os.environ,
                **tool["env"],
                **{"SOURCE_URL": control.source, "SOURCE_TOKEN": control.token, "WAREHOUSE": warehouse, "STATE": state},
                **{"HOME": state, "TMPDIR": state, "LOOKBACK": str(LOOKBACK_SECONDS), "PERIOD": str(pace["period_seconds"])},
                **{"CREDITS": str(pace["credits"]), "REQUESTS_PER_SECOND": str(pace["requests_per_second"])},
            }
            control.post("start", world=scenario["world"], seed=seed, pace=pace)
            for step, *what in scenario["steps"]:
                if step in ("run", "kill"):
                    control.post("drive", phase=what[0])
                    limits = (chance.uniform(5, 30), "killed") if step == "kill" else (LONGEST_SECONDS - (time.monotonic() - begun),)
                    result["runs"].append(run_tool(tool, what[0], environment, log, *limits))
                    control.post("drive", phase="idle")
                elif step == "move":
                    control.post("drive", move=True)
                elif step == "drive":
                    control.post("drive", changes=what[0])
                elif step == "stop":
                    control.post("stop")
                else:
                    tables = (tool["folder"] / "tables.sql").read_text()
                    result["judged"][what[0]] = control.post("judge", warehouse=warehouse, tables=tables)
            result["phases"] = result["judged"]["end"]["phases"]
            for judged in result["judged"].values():
                del judged["phases"]
        finally:
            if keep_log:
                shutil.copy(log, keep_log)
            shutil.rmtree(state, ignore_errors=True)
            admin.run(f"drop database if exists {database} with (force)")
    result["seconds"] = round(time.monotonic() - begun)
    return result


def spread(values):
    """The median, and the range where there is one."""
    values = sorted(values)
    show = lambda value: f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
    middle = show(statistics.median_low(values))
    return middle if values[0] == values[-1] else f"{middle} ({show(values[0])}–{show(values[-1])})"


def says(one):
    """What the tool says of itself, and whether that is so."""
    end, failed = one["judged"]["end"], [done["exit"] for done in one["runs"] if done["exit"] not in (0, "killed")]
    missing = sum(end[name]["lost"] for name in ("tickets", "messages", "customers"))
    if failed:
        return "fails", True
    if "says" in end:
        if not end["says"]["complete"]:
            return "not complete", missing > 0
        return "complete", end["says"]["lost_in_spite"] == 0
    return "exit code 0", missing == 0


def table():
    """The newest line of each tool, scenario and seed, as one table a scenario."""
    newest = {}
    for one in results():
        newest[one["tool"], one["scenario"], one["seed"]] = one
    text = ["# Results", "", "Made of [results.jsonl](results.jsonl) by `python3 bench.py table`. The [README](../README.md) says what each word means."]
    for scenario, about in SCENARIOS.items():
        rows = {}
        for (tool, its_scenario, _), one in newest.items():
            if its_scenario == scenario:
                rows.setdefault(tool, []).append(one)
        if not rows:
            continue
        text += ["", f"## {scenario}", "", f"{about['about']}.", ""]
        columns = ["tool", "seeds", "lost", "stale", "phantom", "doubled", "living deleted", "messages lost"]
        columns += ["customers wrong", "credits ÷ least", "refused", "CPU s", "MB", "lines", "says (wrong)"]
        ordered = sorted(rows.values(), key=lambda runs: (median_lost(runs), runs[0]["label"]))
        text += padded([columns, *[cells(runs) for runs in ordered]])
    dates = sorted({one["date"] for one in newest.values()})
    machines = sorted({", ".join(f"{name} {value}" for name, value in one["machine"].items()) for one in newest.values()})
    versions_of = {one["label"]: ", ".join(one["versions"]) for one in newest.values()}
    text += ["", "## Made with", "", "Dates: " + ", ".join(dates) + ".", "", *[f"- {name}: {version}" for name, version in sorted(versions_of.items())]]
    text += [f"- machine: {one}" for one in machines]
    return "\n".join(text) + "\n"


def padded(rows):
    widths = [max(3, *(len(row[column]) for row in rows)) for column in range(len(rows[0]))]
    rows = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths))} |" for row in rows]


def median_lost(runs):
    return statistics.median(one["judged"]["end"]["tickets"]["lost"] for one in runs)


def cells(runs):
    ends = [one["judged"]["end"] for one in runs]
    of_tickets = lambda what: spread([end["tickets"][what] for end in ends])
    living = [max(judged["tickets"]["living_deleted"] for judged in one["judged"].values()) for one in runs]
    wrong = [sum(end["customers"][what] for what in ("lost", "stale", "phantom", "doubled")) for end in ends]
    ratios = [sum(p["credits"] for p in one["phases"]) / sum(p["least"] for p in one["phases"]) for one in runs]
    said = [says(one) for one in runs]
    false = len([1 for _, holds in said if not holds])
    return [
        *[runs[0]["label"], str(len(runs)), *map(of_tickets, ("lost", "stale", "phantom", "doubled")), spread(living)],
        *[spread([end["messages"]["lost"] for end in ends]), spread(wrong), spread(ratios)],
        spread([sum(phase["refused"] for phase in one["phases"]) for one in runs]),
        spread([sum(done["cpu_seconds"] for done in one["runs"]) for one in runs]),
        spread([max(done["memory_mb"] for done in one["runs"]) for one in runs]),
        str(runs[0]["lines"]),
        ", ".join(sorted({word for word, _ in said})) + (f" ({false} of {len(runs)})" if false else ""),
    ]


def results():
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def keep(result):
    with open(RESULTS, "a") as file:
        file.write(json.dumps(result) + "\n")


def run_all(names, scenarios, seeds, server):
    """What is there is not run again: remove its line to do so. A run that cannot be made is said, and the next one begins."""
    there = {(one["tool"], one["scenario"], one["seed"]) for one in results()}
    # Seed after seed, so that what is interrupted has as many seeds of each tool.
    wanted = [(name, scenario, seed) for scenario in scenarios for seed in range(1, seeds + 1) for name in names]
    wanted = [one for one in wanted if one not in there]
    for number, (name, scenario, seed) in enumerate(wanted, 1):
        print(f"{number} of {len(wanted)}: {name}, {scenario}, seed {seed}", end="", file=sys.stderr, flush=True)
        try:
            result = run(name, scenario, seed, server)
            keep(result)
            end = result["judged"]["end"]["tickets"]
            print(f": {result['seconds']} s, {end['lost']} lost, {end['stale']} stale", file=sys.stderr, flush=True)
        except Exception as error:
            print(f": {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = options.add_subparsers(dest="verb", required=True)
    verbs.add_parser("install").add_argument("tools", nargs="*")
    one = verbs.add_parser("run")
    one.add_argument("tool", choices=list(tools()))
    one.add_argument("scenario", choices=list(SCENARIOS))
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--keep", action="store_true", help="add the result to results/results.jsonl")
    one.add_argument("--log", help="a file for what the tool writes")
    every = verbs.add_parser("all")
    every.add_argument("--tools", nargs="+", default=list(tools()), choices=list(tools()))
    every.add_argument("--scenarios", nargs="+", default=list(SCENARIOS), choices=list(SCENARIOS))
    every.add_argument("--seeds", type=int, default=5)
    for verb in (one, every):
        verb.add_argument("--database", default=os.environ.get("DATABASE_URL"), required="DATABASE_URL" not in os.environ)
    verbs.add_parser("table").add_argument("--print", action="store_true", help="do not write it")
    chosen = options.parse_args()
    if chosen.verb == "install":
        install(chosen.tools)
    elif chosen.verb == "table":
        print(table(), end="") if chosen.print else (RESULTS.parent / "README.md").write_text(table())
    elif chosen.verb == "all":
        run_all(chosen.tools, chosen.scenarios, chosen.seeds, chosen.database)
    else:
        result = run(chosen.tool, chosen.scenario, chosen.seed, chosen.database, chosen.log)
        print(json.dumps(result))
        if chosen.keep:
            keep(result)


if __name__ == "__main__":
    main()
