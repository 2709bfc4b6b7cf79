"""The results as tables in Markdown: one of all tools and scenarios, then one of each scenario."""

import statistics

from scenarios import SCENARIOS

# The tool of those who keep this benchmark.
OURS = "Shelfdesk"
# What bench.py writes down where it ended a run, because its time was over.
ENDED = "ended by the benchmark"
# What makes a copy wrong: rows of tickets and messages that differ from the truth at the end, and what the tool deleted on the way.
WRONG = ("lost", "stale", "phantom", "doubled")


def spread(values):
    """The median, and the range where there is one."""
    values = sorted(value for value in values if value is not None)
    if not values:
        return "–"
    counts = all(isinstance(value, int) for value in values)
    show = lambda value: f"{value:,.2f}".removesuffix("0") if not counts else f"{value:,.1f}".removesuffix(".0")
    middle = show(statistics.median(values))
    return middle if values[0] == values[-1] else f"{middle} ({show(values[0])}–{show(values[-1])})"


def says(one):
    """What the tool says of itself, and whether that is so. Runs during an outage, and those that were killed, may fail."""
    end = one["judged"]["end"]
    expected = lambda run: run["exit"] in (0, "killed") or str(run["exit"]).startswith("outage")
    missing = sum(end[name]["lost"] for name in ("tickets", "messages", "customers"))
    if any(run["exit"] == ENDED for run in one["runs"]):
        return ENDED, True
    if not all(expected(run) for run in one["runs"]):
        return "fails", True
    if "says" in end:
        if not end["says"]["complete"]:
            return "not complete", missing > 0 and end["says"]["lost_in_spite"] == 0
        return "complete", end["says"]["lost_in_spite"] == 0
    return "exit code 0", missing == 0


def of_end(one, name, what):
    return one["judged"]["end"][name][what]


def living(one):
    return max(judged["tickets"]["living_deleted"] for judged in one["judged"].values())


def customers_wrong(one):
    return sum(of_end(one, "customers", what) for what in WRONG)


def ratio(one):
    return round(sum(phase["credits"] for phase in one["phases"]) / sum(phase["least"] for phase in one["phases"]), 2)


def postgres_cpu(one):
    counts = [run.get("postgres_cpu_seconds") for run in one["runs"]]
    return None if None in counts else round(sum(counts), 1)


def of_all(runs, value):
    return spread([value(one) for one in runs])


def minutes(one, kind, share):
    """Seconds of the benchmark as minutes of life."""
    seconds = one["judged"]["end"]["seen"][kind][share]
    return float("inf") if seconds is None else round(seconds * one["pace"]["credits"] * 60 / (100 * one["pace"]["period_seconds"]) / 60, 1)


def seen(runs, kind):
    """p50 and p95 of the minutes, medians of the seeds, and how many changes the copy never showed."""
    show = lambda value: "–" if value == float("inf") else f"{value:.1f}"
    halves = [show(statistics.median(minutes(one, kind, share) for one in runs)) for share in ("p50", "p95")]
    counts = [one["judged"]["end"]["seen"][kind] for one in runs]
    unseen = sum(count["changes"] - count["seen"] for count in counts)
    return f"{' · '.join(halves)}" + (f" ({unseen} of {sum(count['changes'] for count in counts)} not)" if unseen else "")


def said(runs):
    words = [says(one) for one in runs]
    false = len([1 for _, holds in words if not holds])
    return ", ".join(sorted({word for word, _ in words})) + (f" ({false} of {len(runs)})" if false else "")


def refused(one):
    return sum(phase["refused"] for phase in one["phases"])


def kept_from_others(one):
    return sum(phase["other_refused"] for phase in one["phases"])


def cpu(one):
    return round(sum(run["cpu_seconds"] for run in one["runs"]), 1)


def memory(one):
    return max(run["memory_mb"] for run in one["runs"])


COLUMNS = {
    "tool": lambda runs: runs[0]["label"],
    "seeds": lambda runs: str(len(runs)),
    **{what: lambda runs, what=what: of_all(runs, lambda one: of_end(one, "tickets", what)) for what in WRONG},
    "living deleted": lambda runs: of_all(runs, living),
    "messages lost": lambda runs: of_all(runs, lambda one: of_end(one, "messages", "lost")),
    "customers wrong": lambda runs: of_all(runs, customers_wrong),
    "credits ÷ least": lambda runs: of_all(runs, ratio),
    "refused": lambda runs: of_all(runs, refused),
    "CPU s": lambda runs: of_all(runs, cpu),
    "CPU s of PostgreSQL": lambda runs: of_all(runs, postgres_cpu),
    "MB": lambda runs: of_all(runs, memory),
    "lines": lambda runs: str(runs[0]["lines"]),
    "says (wrong)": said,
}
RECOVERY = {
    "recovery, minutes": lambda runs: of_all(runs, lambda one: recovered(one)),
    "recovery, credits": lambda runs: of_all(runs, lambda one: one["recovery"]["credits"]),
    "not recovered": lambda runs: str(len([1 for one in runs if one["recovery"]["seconds"] is None])),
}


def recovered(one):
    seconds = one["recovery"]["seconds"]
    return None if seconds is None else round(seconds * one["pace"]["credits"] / 100 / one["pace"]["period_seconds"], 1)


MORE = {
    "minutes": {f"{kind} seen, minutes": lambda runs, kind=kind: seen(runs, kind) for kind in ("edit", "customer", "silent", "delete")},
    "killed": RECOVERY,
    "outage": RECOVERY,
    "other-client": {"credits kept from the other client": lambda runs: of_all(runs, kept_from_others)},
}
NAMES = {"edit seen, minutes": "edit", "customer seen, minutes": "customer", "silent seen, minutes": "silent edit", "delete seen, minutes": "deletion"}


def wrong(one):
    """Tickets that are wrong at the end, with living ones that were deleted on the way, but for those that need a nightly run.
    Messages and customers are counted apart."""
    return sum(of_end(one, "tickets", what) for what in WRONG) + living(one) - needs_night(one)


def needs_night(one):
    """Tickets with a silent edit or a deletion, which no list by time shows, in a scenario without a nightly run."""
    nightly = any(run["phase"] == "nightly" for run in one["runs"])
    return 0 if nightly else of_end(one, "tickets", "stale_silent") + of_end(one, "tickets", "phantom_deleted")


def short(runs):
    """A cell of the first table. Bold: something is wrong."""
    counts = [wrong(one) for one in runs]
    cell = spread(counts)
    cell = f"**{cell}**" if max(counts) else cell
    for word in ("fails", ENDED):
        among = len([1 for one in runs if says(one)[0] == word])
        cell += f", {word} {among} of {len(runs)}" if among else ""
    return cell


def newest(results):
    """The newest line of each tool, scenario and seed."""
    return list({(one["tool"], one["scenario"], one["seed"], one.get("server")): one for one in results}.values())


def grouped(results, scenario):
    rows = {}
    for one in newest(results):
        if one["scenario"] == scenario and "server" not in one:
            rows.setdefault(one["tool"], []).append(one)
    return rows


def overview(results):
    """Tickets that are wrong, by tool and scenario."""
    groups = {scenario: rows for scenario in SCENARIOS if (rows := grouped(results, scenario))}
    labels = {tool: runs[0]["label"] for rows in groups.values() for tool, runs in rows.items()}
    order = sorted(labels, key=lambda tool: (-len([1 for rows in groups.values() if tool in rows and not any(map(wrong, rows[tool]))]), labels[tool]))
    rows = [[labels[tool], *[short(rows[tool]) if tool in rows else "" for rows in groups.values()]] for tool in order]
    return padded([["tool", *groups], *rows])


def unseen(*kinds):
    """A count of the changes of these kinds that the copy never showed while it was looked at."""
    return lambda one: sum(count["changes"] - count["seen"] for kind, count in one["judged"]["end"].get("seen", {}).items() if kind in kinds)


# Each way in which a tool can be wrong, and its count in one run.
RED = {
    "tickets wrong": wrong,
    "tickets wrong that the first table leaves out, silent edits and deletions that only a nightly run finds": needs_night,
    "messages lost": lambda one: of_end(one, "messages", "lost"),
    "messages stale, phantom or doubled": lambda one: sum(of_end(one, "messages", what) for what in WRONG[1:]),
    "customers wrong": customers_wrong,
    "edits of tickets that the copy never showed": unseen("edit"),
    "changes of customers that the copy never showed": unseen("customer"),
    "silent edits and deletions that the copy never showed": unseen("silent", "delete"),
    "requests refused": refused,
}
# Each way in which a run as a whole can be wrong.
RED_RUNS = {
    "false claims of completeness, records lost in spite of it": lambda one: not says(one)[1],
    "claims of completeness beside tickets or customers that are wrong, which count as true where none is lost": lambda one: says(one) == ("complete", True) and wrong(one) + customers_wrong(one) > 0,
    "runs that fail, that the benchmark ended, or that say that they are not complete": lambda one: says(one)[0] in ("fails", ENDED, "not complete"),
    "runs that have not recovered": lambda one: "recovery" in one and one["recovery"]["seconds"] is None,
}


def ours(results):
    """Where the tool of those who keep this benchmark is wrong, and where all others need less."""
    groups = {scenario: list(rows.values()) for scenario in SCENARIOS if (rows := grouped(results, scenario))}
    text = ["", f"## Where {OURS} is red", "", f"{OURS} is the tool of those who keep this benchmark. Figures are medians of the seeds, with the range.", ""]
    share = lambda runs, holds: f"in {len([1 for one in runs if holds(one)])} of {len(runs)} runs"
    for what, count in [*RED.items(), *RED_RUNS.items()]:
        say = share if what in RED_RUNS else of_all
        cells = [f"`{scenario}` {say(runs, count)} ({runs[0]['label']})" for scenario, rows in groups.items() for runs in rows if mine(runs) and any(map(count, runs))]
        text += [f"- {what}: {', '.join(cells) or 'none'}"]
    needs = {"CPU": cpu, "CPU of PostgreSQL": postgres_cpu, "memory": memory, "credits": ratio, "time to recover": slowness, "credits kept from the other client": kept_from_others}
    for what, need in needs.items():
        worst = [scenario for scenario, rows in groups.items() if (most := largest(rows, need)) and mine(most)]
        text += [f"- more {what} than every other tool: {', '.join(f'`{scenario}`' for scenario in worst) or 'nowhere'}"]
    return text


def mine(runs):
    return runs[0]["label"].startswith(OURS)


def slowness(one):
    return recovered(one) if "recovery" in one else None


def largest(rows, need):
    """The runs of the tool with the largest median, where all that matters is known."""
    known = [(statistics.median(counts), runs) for runs in rows if (counts := [count for one in runs if (count := need(one)) is not None])]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def table(results):
    text = ["# Results", "", "Made of [results.jsonl](results.jsonl) by `python3 bench.py table`. The [README](../README.md) says what each word means."]
    text += ["", "## Wrong tickets", ""]
    text += ["Tickets that are lost, stale, phantom or doubled at the end, and living ones that were deleted on the way: the median of the seeds, with the range. Bold: not 0."]
    text += ["Left out are messages, customers, and, where a scenario has no nightly run, silent edits and deletions, which no list by time shows: the tables of the scenarios count them."]
    text += ["An empty cell was not run: some variants differ from another one in some scenarios only, and others were not tried there yet. Each table below says of how many seeds a row is made, and the last part with what.", "", *overview(results), *ours(results)]
    for scenario, about in SCENARIOS.items():
        rows = grouped(results, scenario)
        if not rows:
            continue
        text += ["", f"## {scenario}", "", f"{about['about']}.", ""]
        columns = {**COLUMNS, **MORE.get(scenario, {})}
        head = [NAMES.get(name, name) for name in columns]
        ordered = sorted(rows.values(), key=lambda runs: (statistics.median(map(wrong, runs)), runs[0]["label"]))
        text += padded([head, *[[cell(runs) for cell in columns.values()] for runs in ordered]])
    return "\n".join([*text, *second(results), "", *made_with(results)]) + "\n"


def second(results):
    """The same tools on the second server: tickets that were lost or stale, on this server and on that."""
    lines = newest(results)
    pairs = sorted({(one["scenario"], one["label"], one["tool"]) for one in lines if "server" in one})
    if not pairs:
        return []
    of = lambda one: of_end(one, "tickets", "lost") + of_end(one, "tickets", "stale") - of_end(one, "tickets", "stale_silent")
    rows = []
    for scenario, label, tool in pairs:
        ours, theirs = ([one for one in lines if (one["scenario"], one["tool"]) == (scenario, tool) and ("server" in one) == there] for there in (False, True))
        rows.append([scenario, label, str(len(ours)), of_all(ours, of), str(len(theirs)), of_all(theirs, of)])
    return [
        *["", "## The second server", ""],
        "Tickets that are lost or stale, silent edits left aside, on `server.py` and on the sandbox of this repository (`second/sandbox.py`),",
        "which was written from the same interface by other hands, changes other things, and lists nothing late.",
        *["", *padded([["scenario", "tool", "seeds", "server.py", "seeds", "sandbox"], *rows])],
    ]


def made_with(results):
    """Dates, versions and machines."""
    lines = newest(results)
    versions = {one["label"]: set() for one in lines}
    for one in lines:
        versions[one["label"]].add(", ".join(one["versions"]))
    machines = sorted({", ".join(f"{name} {value}" for name, value in one["machine"].items()) for one in lines})
    counts = sorted(len(runs) for scenario in SCENARIOS for runs in grouped(results, scenario).values())
    text = ["## Made with", "", f"{len(lines)} runs, {counts[0]} to {counts[-1]} seeds a cell, {len([1 for count in counts if count >= 5])} of {len(counts)} cells with five. Dates: " + ", ".join(sorted({one["date"] for one in lines})) + ".", ""]
    text += [f"- {label}: {'; '.join(sorted(found))}" for label, found in sorted(versions.items())]
    return text + [f"- machine: {one}" for one in machines]


def padded(rows):
    widths = [max(3, *(len(row[column]) for row in rows)) for column in range(len(rows[0]))]
    rows = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths))} |" for row in rows]
