"""The worlds that tools are run in, and what happens in each.

A scenario is a world, a pace and a list of steps:
    ("move",)               the world begins to move by itself
    ("stop",)               it stands still, and what was late is listed
    ("drive", {…})          so many changes of each kind happen at once
    ("pace", {…})           the service behaves otherwise from now on
    ("run", "first")        one run of the tool; the word reaches it as its argument
    ("kill", "first", a, b) the same, killed (SIGKILL) at a random moment between a and b seconds
    ("watch", moving, still) the tool runs in its rhythm while the world moves, then while it stands still; each change is timed
    ("recover",)            the tool runs in its rhythm until its copy equals the truth
    ("outage", seconds)     the same, but for so long each request fails; then the world stands still
    ("judge", name)         the copy is judged
"""

LOOKBACK_SECONDS = 4
# The usual rhythm: a run begins so many seconds after the last one began, or when that has ended.
RHYTHM_SECONDS = 4
RECOVERY_SECONDS = 60


def pace(times=1, **more):
    """100 credits a minute and 8 changes a minute. At 1, one second stands for half a minute; at 4, for two minutes."""
    return {
        "changes_per_second": 4 * times,
        "credits": 100 * times,
        "period_seconds": 2,
        "requests_per_second": 180 * times,
        **more,
    }


# What happens between two runs of a tool: most of it in one second.
BUSY = {"update": 60, "message": 20, "create": 20, "again": 10, "bulk": 1, "customer": 5, "customer_edit": 20}
LATE = {"tickets": 300, "late_share": 0.25, "bulk": 130}
WATCHED = {"update": 50, "message": 30, "create": 10, "again": 4, "delete": 7, "silent": 7, "customer_edit": 7}
SMALL = {"tickets": 300, "customers": 120}

FIRST_LOAD = [("move",), ("run", "first"), ("stop",), ("run", "again"), ("judge", "end")]
INCREMENTS = [
    *[("run", "first"), ("judge", "first"), ("move",)],
    *[("drive", BUSY), ("run", "again")] * 3,
    *[("stop",), ("run", "again"), ("judge", "end")],
]

SCENARIOS = {
    "first-load-3": {
        "about": "300 tickets on 3 pages are loaded while they change; then the world stands still, and the tool runs once more",
        "world": SMALL,
        "pace": pace(),
        "steps": FIRST_LOAD,
    },
    "first-load-30": {
        "about": "The same with 3,000 tickets on 30 pages. One second stands for two minutes",
        "world": {"tickets": 3000, "customers": 900},
        "pace": pace(4),
        "steps": FIRST_LOAD,
    },
    "first-load-300": {
        "about": "The same with 30,000 tickets on 300 pages. One second stands for three minutes. One seed",
        "world": {"tickets": 30_000, "customers": 3000, "depth": 100_000},
        "pace": pace(6),
        "steps": FIRST_LOAD,
        "seeds": 1,
    },
    "increments": {
        "about": "300 tickets; three times some 240 changes within a second, a quarter of them listed late, and changes during each run",
        "world": LATE,
        "pace": pace(),
        "steps": INCREMENTS,
    },
    "exclusive": {
        "about": "As increments, but `since` leaves out its own second",
        "world": {**LATE, "since": "exclusive"},
        "pace": pace(),
        "steps": INCREMENTS,
    },
    "clock": {
        "about": "As increments, but the clock that stamps records is 6 s (three minutes) behind that of the header `Date`",
        "world": {**LATE, "stamps_behind": 6},
        "pace": pace(),
        "steps": INCREMENTS,
    },
    "night": {
        "about": "900 tickets, 20 deletions, 20 silent edits; the nightly run of the tool while tickets change; then one run more",
        "world": {},
        "pace": pace(2),
        "steps": [
            *[("run", "first"), ("judge", "first"), ("drive", {"delete": 20, "silent": 20}), ("move",)],
            *[("run", "nightly"), ("stop",), ("judge", "night"), ("run", "again"), ("judge", "end")],
        ],
    },
    "deep": {
        "about": "600 tickets, loaded as in first-load, but pages end after 300 tickets: a page beyond is a 422",
        "world": {"tickets": 600, "customers": 120, "depth": 300, "beyond": "422"},
        "pace": pace(2),
        "steps": FIRST_LOAD,
    },
    "deep-empty": {
        "about": "The same, but a page beyond is empty",
        "world": {"tickets": 600, "customers": 120, "depth": 300, "beyond": "empty"},
        "pace": pace(2),
        "steps": FIRST_LOAD,
    },
    "short-pages": {
        "about": "600 tickets, loaded as in first-load, but a page has at most 40 records, whatever `per_page` asks for",
        "world": {"tickets": 600, "page_cap": 40},
        "pace": pace(2),
        "steps": FIRST_LOAD,
    },
    "failing": {
        "about": "600 tickets, loaded as in first-load, but two answers of a hundred are a 503 or none at all",
        "world": {"tickets": 600},
        "pace": pace(2, failures=0.02),
        "steps": FIRST_LOAD,
    },
    "other-client": {
        "about": "600 tickets, loaded as in first-load, but another client spends 40 % of the credits, at once, at a random moment of each period",
        "world": {"tickets": 600},
        "pace": pace(2, other=0.4),
        "steps": FIRST_LOAD,
    },
    "killed": {
        "about": "A first load is killed twice at a random moment (SIGKILL) and then ends; 240 changes; the next run is killed; recovery is timed",
        "world": SMALL,
        "pace": pace(),
        "steps": [
            *[("move",), ("kill", "first", 3, 9), ("kill", "first", 3, 9), ("run", "first"), ("run", "again"), ("stop",)],
            *[("drive", BUSY), ("kill", "again", 2, 6), ("recover",), ("judge", "end")],
        ],
    },
    "outage": {
        "about": "The world moves; each request fails for 20 s (ten minutes) while the tool runs in its rhythm; then recovery is timed",
        "world": SMALL,
        "pace": pace(),
        "steps": [("run", "first"), ("move",), ("outage", 20), ("judge", "end")],
    },
    "minutes": {
        "about": "The tool runs in its rhythm for 70 s (35 minutes) while tickets and customers are edited, and deleted, in silence too; then for 40 s more",
        "world": {**SMALL, "changes": WATCHED},
        "pace": pace(),
        "steps": [("run", "first"), ("watch", 70, 40), ("judge", "end")],
    },
}
