#!/usr/bin/env python3
"""A help desk over HTTP whose tickets change while they are read, with a port that steers it and judges a copy of it.

    python3 server.py [--port 0] [--control-port 0]

It prints one line of JSON: the addresses of both ports and the token. It needs Python 3.10 and nothing else.
"""

import argparse
import base64
import heapq
import json
import math
import random
import threading
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import judge

TOKEN = "moving-source"
STATES = ("open", "hold", "closed")
USERS = [f"u{number}" for number in range(1, 9)]
INBOXES = [f"i{number}" for number in range(1, 4)]
LABELS = [f"l{number}" for number in range(1, 10)]
DAY = 86_400

# What a world is, unless /start says something else.
WORLD = {
    "tickets": 900,
    "customers": 320,
    # How likely each kind of change is. The numbers are shares of one another.
    "changes": {"update": 50, "message": 30, "create": 10, "again": 6, "bulk": 1},
    # This many tickets change in one second when somebody edits in bulk.
    "bulk": 30,
    # This share of changes is listed late, by up to so many seconds, with the time of the change.
    "late_share": 0.1,
    "late_seconds": 3,
    # What the specification leaves open: whether `since` includes its own second, and what lies beyond the depth of pages.
    "since": "inclusive",
    "depth": 10_000,
    "beyond": "422",
    # A page has at most so many records, whatever `per_page` asks for; the next one goes on behind them.
    "page_cap": 100,
    # The clock that stamps records is so many seconds behind the clock of the header Date.
    "stamps_behind": 0,
}
PACE = {
    "changes_per_second": 4,
    # Changes after each answer, so that the speed of the reader does not matter.
    "changes_per_request": 0,
    "credits": 100,
    "period_seconds": 2,
    "requests_per_second": 180,
    # This share of answers is a 503, or a connection that ends without one.
    "failures": 0,
    # Another client of the account spends this share of the credits of each period, at once, at a random moment of it.
    "other": 0,
}


def stamp(seconds):
    return datetime.fromtimestamp(math.floor(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """The records, and the changes that come to them. The same seed gives the same changes in the same order."""

    def __init__(self, options, seed, now):
        self.options = {**WORLD, **options}
        self.random = random.Random(seed)
        # What is listed, what it really is (a late change is not listed yet), and what waits for its listing.
        self.tickets, self.real, self.waiting = {}, {}, []
        self.customers, self.deleted, self.touched, self.silent = {}, set(), set(), set()
        self.made = self.numbers = 0
        self.last = None
        self.count = {}
        # Each change since somebody began to watch, and the contents that its record has had since then.
        self.watched, self.versions = None, {}
        for number in range(1, self.options["customers"] + 1):
            self.add_customer(now - self.random.uniform(1, 400) * DAY)
        for created in sorted(now - self.random.uniform(0.01, 400) * DAY for _ in range(self.options["tickets"])):
            self.list(self.new_ticket(created, now))
        self.touched.clear()

    def id(self, letter):
        self.made += 1
        return f"{letter}{self.random.getrandbits(32):08x}{self.made:x}"

    def add_customer(self, at):
        customer = {
            "id": self.id("c"),
            "first_name": f"First{self.made}",
            "last_name": f"Last{self.made}",
            "summary": None,
            "contacts": [{"id": self.id("k"), "type": "email", "value": f"person{self.made}@example.com"}],
            "_created": at,
        }
        self.customers[customer["id"]] = customer
        return customer

    def new_message(self, at):
        inbound = self.random.random() < 0.6
        return {
            "id": self.id("m"),
            "from_name": "Somebody",
            "body": f"Text {self.random.getrandbits(40):x}",
            "htmlized": False,
            "attachments": [],
            "user_id": None if inbound else self.random.choice(USERS),
            "type": "reply",
            "created_at": self.stamp(at),
            "direction": "in" if inbound else "out",
            "from": "person@example.com",
            "to": "desk@example.com",
            "more_body": "",
        }

    def new_ticket(self, created, now):
        self.numbers += 1
        quiet = created if created >= now else self.random.uniform(created, min(now - 600, created + 20 * DAY))
        ticket = {
            "id": self.id("t"),
            "number": self.numbers,
            "customer_id": self.random.choice(list(self.customers)),
            "user_id": self.random.choice([None, *USERS]),
            "inbox_id": self.random.choice(INBOXES),
            "label_ids": self.random.sample(LABELS, self.random.randrange(3)),
            "state": self.random.choice(STATES),
            "snoozed_until": None,
            "subject": f"Subject {self.numbers}",
            "type": self.random.choice(["email", "chat", "phone"]),
            "spam": False,
            "trash": False,
            "updated_at": self.stamp(max(created, quiet)),
            "created_at": self.stamp(created),
            "reply_to": "desk@example.com",
            "reply_cc": "",
            "summary": None,
            "messages": [self.new_message(created) for _ in range(self.random.randrange(1, 5))],
            "_tie": self.random.random(),
        }
        self.real[ticket["id"]] = ticket
        return ticket

    def list(self, ticket):
        if ticket["id"] not in self.deleted:
            self.tickets[ticket["id"]] = ticket
            self.touched.add(ticket["id"])
            self.silent.discard(ticket["id"])

    def show(self, ticket, at):
        """Lists a change now, or late: with the time of the change, behind a cursor that has passed it."""
        self.real[ticket["id"]] = ticket
        late = self.random.random() < self.options["late_share"]
        delay = self.random.uniform(0.5, self.options["late_seconds"]) if late else 0
        # A ticket of which a change waits: what comes later waits too, so that no old state follows a new one.
        after = max((due for due, _, waiting in self.waiting if waiting["id"] == ticket["id"]), default=0)
        heapq.heappush(self.waiting, (max(at + delay, after), self.made_up(), ticket))

    def made_up(self):
        self.made += 1
        return self.made

    def list_due(self, at):
        while self.waiting and self.waiting[0][0] <= at:
            self.list(heapq.heappop(self.waiting)[2])

    def note(self, kind, table, record, at, **more):
        """A change that is watched. A copy has seen it when it shows the record as it is then or later."""
        if self.watched is None:
            return
        versions = self.versions.setdefault((table, record["id"]), [])
        if kind == "delete":  # No copy can show any more what was changed before.
            self.watched = [one for one in self.watched if (one["table"], one["id"]) != (table, record["id"]) or "seen" in one]
        versions.append(dict(record))
        self.watched.append({"kind": kind, "table": table, "id": record["id"], "at": at, "from": len(versions) - 1, **more})

    def pick(self):
        return self.random.choice(list(self.real))

    def edited(self, ticket_id, at, **changes):
        self.last = ticket_id
        self.show({**self.real[ticket_id], **changes, "updated_at": self.stamp(at)}, at)
        message = changes["messages"][-1]["id"] if "messages" in changes else None
        self.note("edit", "tickets", self.real[ticket_id], at, message=message)

    def stamp(self, at):
        return stamp(at - self.options["stamps_behind"])

    def change(self, kind, at):
        """One change. Its kind and its ticket depend on the seed alone, its time on the clock."""
        self.list_due(at)
        self.count[kind] = self.count.get(kind, 0) + 1
        chance = self.random
        if kind == "again" and self.last not in self.real:
            kind = "update"
        if kind == "create":
            ticket = self.new_ticket(at, at)
            self.show(ticket, at)
            self.note("edit", "tickets", ticket, at)
        elif kind == "message":
            ticket_id = self.pick()
            messages = [*self.real[ticket_id]["messages"], self.new_message(at)]
            self.edited(ticket_id, at, messages=messages, state="open")
        elif kind == "update":
            self.edited(self.pick(), at, state=chance.choice(STATES), user_id=chance.choice([None, *USERS]))
        elif kind == "again":  # The last changed ticket once more, often in the same second: only its content tells.
            self.edited(self.last, at, label_ids=chance.sample(LABELS, 2), subject=f"Edited {chance.getrandbits(24):x}")
        elif kind == "bulk":
            for ticket_id in chance.sample(list(self.real), min(self.options["bulk"], len(self.real))):
                self.edited(ticket_id, at, user_id=chance.choice(USERS))
        elif kind == "silent":  # No list shows it by time.
            ticket_id = self.pick()
            self.silent.add(ticket_id)
            changes = {"subject": f"Silent {chance.getrandbits(24):x}"}
            self.real[ticket_id] = {**self.real[ticket_id], **changes}
            if ticket_id in self.tickets:
                self.tickets[ticket_id] = {**self.tickets[ticket_id], **changes}
            self.waiting = [(due, tie, {**one, **changes} if one["id"] == ticket_id else one) for due, tie, one in self.waiting]
            heapq.heapify(self.waiting)
            self.note("silent", "tickets", self.real[ticket_id], at)
        elif kind == "delete":
            ticket_id = self.pick()
            self.deleted.add(ticket_id)
            self.note("delete", "tickets", self.real.pop(ticket_id), at)
            self.tickets.pop(ticket_id, None)
            self.touched.discard(ticket_id)
        elif kind == "customer":
            self.add_customer(at)
        elif kind == "customer_edit":
            customer = chance.choice(list(self.customers.values()))
            customer["first_name"] = f"Edited{chance.getrandbits(24):x}"
            self.note("customer", "customers", customer, at)
        else:
            raise ValueError(f"there is no change {kind}")

    def draw(self, at):
        kinds = self.options["changes"]
        self.change(self.random.choices(list(kinds), list(kinds.values()))[0], at)


class Desk:
    """One account: its world, its pace, its credits."""

    def __init__(self, options, seed, pace):
        self.lock = threading.RLock()
        self.pace = {**PACE, **pace}
        self.seed = seed
        self.begun = time.time()
        self.world = World(options, seed, self.begun)
        self.moving, self.drawn, self.moved = False, 0, 0.0
        self.window_ends, self.left, self.recent = 0.0, 0, []
        self.before = {"tickets": set(), "customers": set(), "messages": set()}
        self.phases = []
        # Another source of chance than the world's: whether a request fails does not change what happens in the world.
        self.chance, self.other, self.other_at = random.Random(seed), random.Random(seed), math.inf

    def catch_up(self):
        """The changes that have become due since the last look, each at its own moment."""
        now = time.time()
        if self.moving:
            rate = self.pace["changes_per_second"]
            while self.moved + (self.drawn + 1) / rate <= now if rate else False:
                self.drawn += 1
                self.world.draw(self.moved + self.drawn / rate)
        self.world.list_due(now)
        return now

    def move(self):
        self.catch_up()
        self.moving, self.moved, self.drawn = True, time.time(), 0

    def stop(self):
        """The world stands still, and what was late is listed."""
        self.catch_up()
        self.moving = False
        self.world.list_due(math.inf)

    def phase(self, name):
        """A run of the tool begins, and credits are counted anew; `idle`: it has ended.

        What the run needs at least: the first one everything, a later one what changed since the run before it ended.
        Changes during a run count for none: a reader may be lucky."""
        world = self.world
        pages = lambda count: max(1, math.ceil(count / 100))
        if name == "idle" and self.phases[-1]["name"] == "watch":  # It was long: what changed had to be read.
            changed = len(world.touched & set(world.tickets))
            self.phases[-1]["least"] += pages(changed) + 2 * changed
        if name != "idle":
            changed = len(world.touched & set(world.tickets)) if self.phases else len(world.tickets)
            least = 1 + pages(len(world.customers)) + pages(changed) + 2 * changed
            if name == "nightly":  # Deletions and silent edits are in no list by time: the list has to be read again.
                least += pages(len(world.tickets))
            self.phases.append({"name": name, "credits": 0, "requests": 0, "refused": 0, "other_refused": 0, "least": least})
        world.touched = set()

    def spend(self, cost, now):
        """The headers of the answer, and whether it is refused."""
        if not self.phases:
            self.phase("unnamed")
        counts = self.phases[-1]
        if now >= self.window_ends:
            self.other_spends(math.inf)
            self.window_ends, self.left = now + self.pace["period_seconds"], self.pace["credits"]
            self.other_at = now + self.other.random() * self.pace["period_seconds"]
        self.other_spends(now)
        self.recent = [at for at in self.recent if at > now - 1]
        refused = self.left < cost or len(self.recent) >= self.pace["requests_per_second"]
        counts["requests"] += 1
        if refused:
            counts["refused"] += 1
        else:
            self.recent.append(now)
            self.left -= cost
            counts["credits"] += cost
        headers = {
            "Rate-Limit-Limit": self.pace["credits"],
            "Rate-Limit-Remaining": self.left,
            "Rate-Limit-Used": 0 if refused else cost,
            "Rate-Limit-Reset": max(1, math.ceil(self.window_ends - now)),
        }
        return headers, refused

    def other_spends(self, now):
        """The other client of the account takes its credits, or finds that they are spent."""
        if self.other_at <= now:
            wants = round(self.pace["other"] * self.pace["credits"])
            self.phases[-1]["other_refused"] += max(0, wants - self.left)
            self.left, self.other_at = max(0, self.left - wants), math.inf

    def truth(self):
        world = self.world
        return {"tickets": world.real, "customers": world.customers, "deleted": world.deleted, "silent": world.silent}


class Refusal(Exception):
    def __init__(self, status, message, errors=None):
        self.status = status
        self.body = {"message": message, **({"errors": [{"message": errors}]} if errors else {})}


class Failure(Exception):
    def __init__(self, silent):
        self.silent = silent


def plain(record, embed=()):
    """Without what only the server knows. Messages only if they were asked for."""
    shown = {name: value for name, value in record.items() if not name.startswith("_") and name != "messages"}
    if "messages" in embed:
        shown["messages"] = record["messages"]
    if "labels" in embed:
        shown["labels"] = [{"id": label, "name": f"Label {label}"} for label in record["label_ids"]]
    if "inbox" in embed:
        shown["inbox"] = {"id": record["inbox_id"], "name": f"Inbox {record['inbox_id']}"}
    if "user" in embed:
        shown["user"] = next((user for user in all_users() if user["id"] == record["user_id"]), None)
    return shown


def all_users():
    return [{"id": user, "first_name": "User", "last_name": user, "email": f"{user}@example.com"} for user in USERS]


def seconds(text):
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise Refusal(400, "Bad Request") from None


def whole(query, name, fallback, least):
    text = query.get(name, str(fallback))
    if not text.isdigit() or int(text) < least:
        raise Refusal(400, "Bad Request")
    return int(text)


def page_of(records, query, options):
    """More than 100 a page is 100 a page, or what the world has as its most. Pages end at the depth of the world."""
    page, size = whole(query, "page", 1, 1), min(options["page_cap"], 100, whole(query, "per_page", 10, 0))
    first = (page - 1) * size
    if first + size > options["depth"] and first < len(records):
        if options["beyond"] == "422":
            raise Refusal(422, "Validation failed", f"page goes beyond {options['depth']}")
        return records[first : options["depth"]]
    return records[first : first + size]


def since(records, query, name, field, options):
    if name not in query:
        return records
    bound = stamp(math.ceil(seconds(query[name])))
    exclusive = options["since"] == "exclusive"
    return [record for record in records if record[field] > bound or (record[field] == bound and not exclusive)]


ORDERS = ("updated_at", "-updated_at", "created_at", "-created_at", "user_id,-updated_at")


def list_tickets(world, query):
    found = list(world.tickets.values())
    for name, field in {"id": "id", "inbox_id": "inbox_id", "state": "state", "user_id": "user_id", "type": "type"}.items():
        if name in query:
            wanted = {None if value == "null" else value for value in query[name].split(",")}
            found = [ticket for ticket in found if ticket[field] in wanted]
    if "label_id" in query:
        found = [ticket for ticket in found if set(ticket["label_ids"]) & set(query["label_id"].split(","))]
    for name in ("spam", "trash"):
        if name in query:
            found = [ticket for ticket in found if ticket[name] == (query[name] == "true")]
    for name in ("created_at", "updated_at"):
        found = since(found, query, f"since_{name}", name, world.options)
    order = query.get("sort", "-created_at")
    if order not in ORDERS:
        raise Refusal(400, "Bad Request")
    for part in reversed(order.split(",")):
        # Of one second no order is promised: it is the same for every reader, and says nothing.
        found.sort(key=lambda one: (one[part.lstrip("-")] or "", one["_tie"]), reverse=part.startswith("-"))
    return found


def list_customers(world, query):
    found = [{**customer, "created_at": world.stamp(customer["_created"])} for customer in world.customers.values()]
    if "contacts.value" in query:
        wanted = (query.get("contacts.type", "email"), query["contacts.value"])
        found = [one for one in found if any((k["type"], k["value"]) == wanted for k in one["contacts"])]
    found = since(found, query, "since_created_at", "created_at", world.options)
    found.sort(key=lambda one: (one["_created"], one["id"]), reverse=query.get("sort") != "created_at")
    for one in found:
        del one["created_at"]
    return found


def answer(desk, path, query):
    """The records of one GET, and how many there are on all pages."""
    world = desk.world
    embed = tuple(name for name in query.get("embed", "").split(",") if name)
    parts = path.strip("/").split("/")
    if parts == ["users"]:
        return all_users(), len(USERS)
    if parts == ["tickets"]:
        found = list_tickets(world, query)
        return [plain(ticket) for ticket in page_of(found, query, world.options)], len(found)
    if parts == ["customers"]:
        found = list_customers(world, query)
        return [plain(customer) for customer in page_of(found, query, world.options)], len(found)
    if len(parts) == 2 and parts[0] == "tickets" and parts[1] in world.tickets:
        ticket = plain(world.tickets[parts[1]], embed)
        if "customer" in embed:
            ticket["customer"] = plain(world.customers[ticket["customer_id"]])
        return ticket, 1
    if len(parts) == 2 and parts[0] == "customers" and parts[1] in world.customers:
        return plain(world.customers[parts[1]]), 1
    raise Refusal(404, "Not Found")


def only(body, names):
    if not names:
        return body
    names = names.split(",")
    pick = lambda record: {name: record[name] for name in names if name in record}
    return [pick(record) for record in body] if isinstance(body, list) else pick(body)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer is one write: without this the last bytes wait for an acknowledgement.
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def reply(self, status, body, headers=None):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json", "Content-Length": len(text)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)
        self.wfile.flush()


class DeskHandler(Handler):
    """The interface of the service. It reads only: this benchmark has no tool that writes."""

    def authorized(self):
        scheme, _, secret = self.headers.get("Authorization", "").partition(" ")
        if scheme == "Basic":
            secret = base64.b64decode(secret).decode().partition(":")[0]
        return scheme in ("Bearer", "Basic") and secret == TOKEN

    def do_GET(self):
        desk = self.server.bench.desk
        address = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(address.query, keep_blank_values=True).items()}
        headers = {}
        try:
            if desk is None or not address.path.startswith("/api/v1/"):
                raise Refusal(404, "Not Found")
            if not self.authorized():
                raise Refusal(401, "Unauthorized")
            with desk.lock:
                now = desk.catch_up()
                embedded = len([name for name in query.get("embed", "").split(",") if name])
                headers, refused = desk.spend(1 + embedded + (query.get("count") == "true"), now)
                if refused:
                    raise Refusal(429, "Too Many Requests")
                if desk.chance.random() < desk.pace["failures"]:
                    raise Failure(desk.chance.random() < 0.5)
                body, total = answer(desk, address.path.removeprefix("/api/v1/"), query)
                if desk.moving:
                    for _ in range(desk.pace["changes_per_request"]):
                        desk.world.draw(now)
            status, body = 200, only(body, query.get("fields"))
            if query.get("count") == "true":
                headers["Total-Count"] = total
        except Refusal as refusal:
            status, body = refusal.status, refusal.body
        except Failure as failure:
            self.close_connection = True
            return None if failure.silent else self.reply(503, None, headers)
        if query.get("envelope") == "true":
            status, body = 200, {"status": status, "headers": headers, "response": body}
        self.reply(status, body, headers)


class ControlHandler(Handler):
    """POST /start, /drive, /stop, /look, /judge, with a JSON body. GET / says what there is."""

    def do_GET(self):
        self.reply(200, self.server.bench.status())

    def do_POST(self):
        bench = self.server.bench
        try:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
            work = {"/start": bench.start, "/drive": bench.drive, "/stop": bench.stop, "/look": bench.look, "/judge": bench.judge}[self.path]
        except (KeyError, ValueError):
            return self.reply(400, {"message": "POST /start, /drive, /stop, /look or /judge, with a JSON body"})
        try:
            self.reply(200, work(**body))
        except Exception as error:  # Whoever steers is told what was wrong.
            self.reply(422, {"message": f"{type(error).__name__}: {error}"})


class Bench:
    """What the control port does. The README explains each verb."""

    desk = None

    def status(self):
        if self.desk is None:
            return {"started": False}
        with self.desk.lock:
            self.desk.catch_up()
            world = self.desk.world
            counts = {"tickets": len(world.real), "customers": len(world.customers), "changes": world.count}
            return {"started": True, "moving": self.desk.moving, "phases": self.desk.phases, **counts}

    def start(self, world=None, seed=1, pace=None):
        self.desk = Desk(world or {}, seed, pace or {})
        return self.status()

    def drive(self, phase=None, move=None, changes=None, pace=None, watch=None):
        """A phase begins; so many changes of each kind happen now; the world moves by itself; its pace changes; it is watched."""
        with self.desk.lock:
            now = self.desk.catch_up()
            if phase is not None:
                self.desk.phase(phase)
            if watch:
                self.desk.world.watched = []
            self.desk.pace |= pace or {}
            for kind, count in (changes or {}).items():
                for _ in range(count):
                    self.desk.world.change(kind, now)
            if move:
                self.desk.move()
        return self.status()

    def stop(self):
        with self.desk.lock:
            self.desk.stop()
        return self.status()

    def look(self, tables=None, warehouse=None, rows=None):
        """One look at the copy while the tool works: what it shows by now of the changes that are watched, and whether it equals the
        truth, silent edits and customers left aside. The truth is taken first: a copy that is looked at later may know more."""
        with self.desk.lock:
            now, truth = self.desk.catch_up(), self.desk.truth()
            truth = {**truth, "tickets": dict(truth["tickets"])}
        rows = judge.read(warehouse, tables) if rows is None else rows
        with self.desk.lock:
            judge.see(self.desk.world.watched or [], self.desk.world.versions, rows, now)
        return {"equal": judge.equal(truth, rows)}

    def judge(self, tables=None, warehouse=None, rows=None):
        rows = judge.read(warehouse, tables) if rows is None else rows
        with self.desk.lock:
            self.desk.catch_up()
            verdict, self.desk.before = judge.verdict(self.desk.truth(), rows, self.desk.before)
            if self.desk.world.watched is not None:
                verdict["seen"] = judge.delays(self.desk.world.watched)
            return {**verdict, "phases": self.desk.phases}


def serve(port, handler, bench):
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    server.bench = bench
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--control-port", type=int, default=0)
    chosen = options.parse_args()
    bench = Bench()
    source = f"http://127.0.0.1:{serve(chosen.port, DeskHandler, bench)}/api/v1"
    control = f"http://127.0.0.1:{serve(chosen.control_port, ControlHandler, bench)}"
    print(json.dumps({"source": source, "control": control, "token": TOKEN}), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
