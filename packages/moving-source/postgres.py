"""PostgreSQL from plain Python: a connection that runs SQL text and returns rows of text. It needs no package, so that the
judge and the two scripts run anywhere.

The protocol: https://www.postgresql.org/docs/current/protocol.html (simple query; cleartext, MD5 and SCRAM-SHA-256).
"""

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
from urllib.parse import parse_qs, unquote, urlsplit


class DatabaseError(Exception):
    def __init__(self, fields):
        super().__init__(fields.get("M", "the connection ended"))
        self.code = fields.get("C", "")


class Connection:
    def __init__(self, url):
        address = urlsplit(url)
        query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        self.user = unquote(address.username or os.environ.get("PGUSER", "postgres"))
        self.password = unquote(address.password or os.environ.get("PGPASSWORD", ""))
        host, port = query.get("host") or address.hostname or "127.0.0.1", address.port or int(query.get("port", 5432))
        if host.startswith("/"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(f"{host}/.s.PGSQL.{port}")
        else:
            self.socket = socket.create_connection((host, port))
        if query.get("sslmode") in ("require", "verify-ca", "verify-full"):
            self.socket.sendall(struct.pack("!ii", 8, 80877103))
            if self.socket.recv(1) != b"S":
                raise DatabaseError({"M": "the server has no TLS"})
            context = ssl.create_default_context()
            if query["sslmode"] == "require":
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
        self.file = self.socket.makefile("rb")
        database = unquote(address.path[1:]) or self.user
        names = b"".join(text.encode() + b"\0" for text in ("user", self.user, "database", database, "client_encoding", "UTF8"))
        self.socket.sendall(struct.pack("!ii", len(names) + 9, 196608) + names + b"\0")
        self.authenticate()
        self.until_ready()
        self.run("set timezone = 'UTC'")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.send(b"X", b"")
        self.socket.close()

    def send(self, kind, body):
        self.socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def receive(self):
        head = self.file.read(5)
        if len(head) < 5:
            raise DatabaseError({})
        kind, body = head[:1], self.file.read(struct.unpack("!i", head[1:])[0] - 4)
        if kind == b"E":
            error = DatabaseError({part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part})
            if self.ready:
                return b"error", error
            raise error
        return kind, body

    ready = False

    def authenticate(self):
        client = nonce = None
        while True:
            kind, body = self.receive()
            if kind != b"R":
                raise DatabaseError({"M": f"unexpected message {kind!r}"})
            (method,), rest = struct.unpack("!i", body[:4]), body[4:]
            password = self.password.encode()
            if method == 0:
                self.ready = True
                return
            if method == 3:
                self.send(b"p", password + b"\0")
            elif method == 5:
                inner = hashlib.md5(password + self.user.encode()).hexdigest().encode()
                self.send(b"p", b"md5" + hashlib.md5(inner + rest).hexdigest().encode() + b"\0")
            elif method == 10:
                nonce = base64.b64encode(os.urandom(18)).decode()
                client = f"n=,r={nonce}"
                first = f"n,,{client}".encode()
                self.send(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)
            elif method == 11:
                server = rest.decode()
                said = dict(part.split("=", 1) for part in server.split(","))
                salted = hashlib.pbkdf2_hmac("sha256", password, base64.b64decode(said["s"]), int(said["i"]))
                final = f"c=biws,r={said['r']}"
                signed = f"{client},{server},{final}".encode()
                key = hmac.digest(salted, b"Client Key", "sha256")
                proof = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
                text = base64.b64encode(bytes(a ^ b for a, b in zip(key, proof))).decode()
                self.send(b"p", f"{final},p={text}".encode())
            elif method != 12:
                raise DatabaseError({"M": f"the server asks for a way of signing in ({method}) that is not known here"})

    def until_ready(self):
        rows, error = [], None
        while True:
            kind, body = self.receive()
            if kind == b"D":
                rows.append(values(body))
            elif kind == b"error":
                error = body
            elif kind == b"Z":
                if error:
                    raise error
                return rows

    def run(self, sql):
        """All statements of the text, as one transaction. The rows have text or None in each column."""
        self.send(b"Q", sql.encode() + b"\0")
        return self.until_ready()


def values(body):
    row, at = [], 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        (size,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        row.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return row


def literal(text):
    return "'" + text.replace("'", "''") + "'"
