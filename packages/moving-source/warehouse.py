"""A PostgreSQL of its own for each run, so that its CPU can be told from that of others. It is made once and copied.

It needs `initdb` and `postgres`: on the PATH, in MOVING_SOURCE_POSTGRES, or where Debian puts them.
"""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from glob import glob
from pathlib import Path

import postgres

TICKS = os.sysconf("SC_CLK_TCK")
making = threading.Lock()


def program(name):
    places = [os.environ.get("MOVING_SOURCE_POSTGRES", ""), os.environ.get("PATH", ""), *sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    found = shutil.which(name, path=os.pathsep.join(filter(None, places)))
    if found is None:
        raise SystemExit(f"{name} of PostgreSQL is needed: on the PATH, or its folder in MOVING_SOURCE_POSTGRES; or name a server with --database")
    return os.path.realpath(found)


class Own:
    """A server that lives as long as the block. PostgreSQL refuses to run as root: then it is the user postgres."""

    template = None

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="moving-source-postgres-"))
        self.as_user = {"user": "postgres"} if os.geteuid() == 0 else {}
        data = self.folder / "data"
        if self.as_user:
            shutil.chown(self.folder, "postgres")
        with making:
            if Own.template is None:
                words = ["-U", "bench", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync"]
                self.call(program("initdb"), "-D", data, *words)
                kept = Path(tempfile.mkdtemp(prefix="moving-source-template-"))
                if self.as_user:
                    shutil.chown(kept, "postgres")
                self.call("cp", "-r", data, kept)
                atexit.register(shutil.rmtree, kept, ignore_errors=True)
                Own.template = kept / "data"
            else:
                self.call("cp", "-r", Own.template, data)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = ["-k", "", "-h", "127.0.0.1", "-p", str(port), "-c", "max_connections=60"]
        self.process = subprocess.Popen(
            [program("postgres"), "-D", data, *options],
            **{"cwd": self.folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True, **self.as_user},
        )
        self.url = f"postgres://bench:none@127.0.0.1:{port}/postgres"
        for _ in range(200):
            try:
                postgres.Connection(self.url).__exit__()
                return self
            except (OSError, postgres.DatabaseError):
                time.sleep(0.05)
        raise SystemExit("the PostgreSQL of the benchmark did not start")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *words):
        subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, cwd="/", **self.as_user)

    def cpu_seconds(self):
        """Of the server and all its processes, those that have ended too. None where there is no /proc."""
        try:
            total = 0
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            for pid, count in [(self.process.pid, 4), *[(child, 2) for child in children]]:
                try:
                    total += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11 : 11 + count]))
                except FileNotFoundError:
                    pass  # It ended just now, and the server will count it.
            return total / TICKS
        except FileNotFoundError:
            return None


class Given:
    """A server that somebody else runs."""

    def __init__(self, url):
        self.url = url

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def cpu_seconds(self):
        return None
