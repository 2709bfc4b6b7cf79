"""Compares a copy with the truth, record by record and field by field. It knows no tool: it asks the queries of tables.sql."""

import json
import re
from datetime import datetime

import postgres

FIELDS = {
    "tickets": ("state", "user_id", "inbox_id", "customer_id", "subject", "type", "spam", "trash", "label_ids", "updated_at"),
    "messages": ("ticket_id", "body", "type"),
    "customers": ("first_name", "last_name", "contacts"),
}


def queries(text):
    """The queries of tables.sql, by the comment before each: `-- tickets`. `-- complete` may be one of them."""
    parts = re.split(r"^-- (tickets|messages|customers|complete)\s*$", text, flags=re.MULTILINE)[1:]
    return {name: query.strip().rstrip(";") for name, query in zip(parts[::2], parts[1::2])}


def read(warehouse, tables):
    """The rows of each query. A table that is not there has no rows: the tool has not made it."""
    rows = {}
    with postgres.Connection(warehouse) as database:
        for name, query in queries(tables).items():
            try:
                rows[name] = [json.loads(row) for (row,) in database.run(f"select row_to_json(x) from (\n{query}\n) x")]
            except postgres.DatabaseError as error:
                if error.code not in ("42P01", "3F000"):
                    raise
                rows[name] = []
    return rows


def same(field, value):
    """A value so that two of them can be compared: of a set the order says nothing, of a time the zone."""
    if field in ("label_ids", "contacts"):
        value = json.loads(value) if isinstance(value, str) else value or []
        if field == "contacts":
            value = [[contact.get(name) for name in ("id", "type", "value")] for contact in value]
        return sorted(value)
    if field == "updated_at" and isinstance(value, str):
        return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
    return value


def compare(name, true, rows, truth, before):
    found, doubled = {}, 0
    for row in rows:
        doubled += row["id"] in found
        found.setdefault(row["id"], []).append(row)
    differs = lambda row: any(same(field, row.get(field)) != same(field, true[row["id"]][field]) for field in FIELDS[name])
    lost = [key for key in true if key not in found]
    stale = [key for key, copies in found.items() if key in true and any(differs(row) for row in copies)]
    return {
        "true": len(true),
        "rows": len(rows),
        "lost": len(lost),
        "stale": len(stale),
        "stale_silent": len([key for key in stale if key in truth["silent"]]),
        "phantom": len([key for key in found if key not in true]),
        "phantom_deleted": len([key for key in found if key in truth["deleted"]]),
        "doubled": doubled,
        "living_deleted": len([key for key in lost if key in before]),
        "examples": {"lost": lost[:5], "stale": stale[:5]},
    }, set(found), lost


def see(watched, versions, rows, now):
    """Notes at each change that the copy shows when it was first seen: the record is as it was made then, or as a later change made it."""
    copies = {name: {row["id"]: row for row in rows.get(name, [])} for name in FIELDS}
    for change in watched:
        if "seen" in change:
            continue
        row = copies[change["table"]].get(change["id"])
        if change["kind"] == "delete":
            seen = row is None
        else:
            later = versions[change["table"], change["id"]][change["from"] :]
            fields = FIELDS[change["table"]]
            seen = row is not None and any(all(same(f, row.get(f)) == same(f, one[f]) for f in fields) for one in later)
            seen = seen and (change.get("message") is None or change["message"] in copies["messages"])
        if seen:
            change["seen"] = now


def delays(watched):
    """Of each kind of change: how many there were, how many the copy showed, and the seconds until then. Null: it never showed it."""
    found = {}
    for kind in ("edit", "customer", "silent", "delete"):
        times = sorted(one["seen"] - one["at"] if "seen" in one else float("inf") for one in watched if one["kind"] == kind)
        at = lambda share: times[min(len(times) - 1, int(share * len(times)))] if times else float("inf")
        shown = lambda value: None if value == float("inf") else round(max(0, value), 1)
        seen = len([value for value in times if value < float("inf")])
        found[kind] = {"changes": len(times), "seen": seen, "p50": shown(at(0.5)), "p95": shown(at(0.95))}
    return found


def equal(truth, rows):
    """Whether tickets and messages are as they should be. A silent edit may be open still."""
    judged, _ = verdict(truth, rows, {name: set() for name in FIELDS})
    wrong = ("lost", "phantom", "doubled")
    of_tickets = judged["tickets"]
    return of_tickets["stale"] == of_tickets["stale_silent"] and not any(judged[name][what] for name in ("tickets", "messages") for what in wrong)


def verdict(truth, rows, before):
    """`before`: what the copy held when it was judged last. What lives and is no longer there was deleted by the tool."""
    tickets = truth["tickets"]
    messages = {
        message["id"]: {**message, "ticket_id": ticket["id"]} for ticket in tickets.values() for message in ticket["messages"]
    }
    true = {"tickets": tickets, "messages": messages, "customers": truth["customers"]}
    result, held, lost = {}, {}, {}
    for name, records in true.items():
        result[name], held[name], lost[name] = compare(name, records, rows.get(name, []), truth, before[name])
    wrong = ("lost", "stale", "phantom", "doubled", "living_deleted")
    result["complete"] = not any(result[name][what] for name in true for what in wrong)
    if rows.get("complete"):
        says = rows["complete"][0]
        # A claim up to a time is held to the truth whether the rest is complete or not.
        bound = same("updated_at", says["through"]) if says.get("through") else float("inf" if says["complete"] else "-inf")
        missing = [key for key in lost["tickets"] if same("updated_at", tickets[key]["updated_at"]) < bound]
        missing += [key for key in lost["messages"] if same("updated_at", tickets[messages[key]["ticket_id"]]["updated_at"]) < bound]
        result["says"] = {**says, "lost_in_spite": len(missing)}
    return result, held
