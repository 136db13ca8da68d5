#!/usr/bin/env python3
"""A stand-in for the daemon's HTTP port, with the dashboard's files as they are in the source: for
what a real daemon does only with luck (lost edges, refused streams, no answer), and to work on the
page without building anything:

    stub_daemon.py [PORT]      then open http://127.0.0.1:PORT/ (default 7611)
"""

import json
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

PAGE = Path(__file__).parents[2] / "daemon/admin/dashboard"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css",
         ".svg": "image/svg+xml"}
# As the daemon sends it: dashboard.cc.
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
          "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
          "require-trusted-types-for 'script'; trusted-types 'none'")
SLOTS = 30


class StubDaemon:
    """Answers on a port of its own until close(). The attributes may be changed at any time."""

    def __init__(self, port=0, users=10_000):
        self.token = None
        self.streams_allowed = True
        self.answers = True  # False: every request but for the page fails
        self.users = users
        self.epoch = 3
        self.explanations = {}
        self.events = []  # (seq, name, object)
        self.forgotten = 0  # up to this seq
        self.news = threading.Condition()
        self.started = time.monotonic()
        self.slots = [random.Random(7).randint(200, 500) for _ in range(SLOTS)]
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                stub.serve(self)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # a browser that left
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        with self.news:
            self._server.shutdown()
            self._server.server_close()
            self.news.notify_all()

    # What happens.

    def edge(self, uid, kind="online", reason="login"):
        """An edge of a user, in bytes."""
        now = time.time()
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"
        with self.news:
            seq = self.last_seq() + 1
            self.events.append((seq, "message", {
                "seq": seq, "epoch": self.epoch, "uid": quote(uid, safe="-._~"), "kind": kind,
                "reason": reason, "at": at, "last_seen": at, "sessions": 1}))
            self.news.notify_all()

    def gap(self, dropped):
        """The node drops edges."""
        with self.news:
            first = self.last_seq() + 1
            last = first + dropped - 1
            self.events.append((last, "gap", {"gap": True, "dropped": dropped, "first_seq": first,
                                              "last_seq": last}))
            self.news.notify_all()

    def restart(self):
        """Another epoch, in which nothing has happened; streams end."""
        with self.news:
            self.epoch += 1
            self.events.clear()
            self.news.notify_all()

    def last_seq(self):
        return self.events[-1][0] if self.events else self.forgotten

    # The routes.

    def serve(self, http):
        url = urlsplit(http.path)
        name = "index.html" if url.path == "/" else url.path.removeprefix("/dashboard/")
        if url.path == "/" or url.path.startswith("/dashboard/"):
            return self._page(http, PAGE / Path(name).name)
        if not self.answers:
            http.close_connection = True
            return None
        if self.token and http.headers["Authorization"] != f"Bearer {self.token}":
            return self._json(http, {"error": {"code": "unauthorized", "message": "no"}}, 401)
        if url.path == "/v1/events":
            return self._events(http, parse_qs(url.query))
        if url.path == "/metrics":
            return self._send(http, 200, "text/plain; version=0.0.4", self._metrics().encode())
        if url.path == "/v1/status":
            return self._json(http, self._status())
        if url.path == "/v1/wheel":
            return self._json(http, self._wheel())
        if url.path.startswith("/v1/users/") and url.path.endswith(":explain"):
            uid = url.path.removeprefix("/v1/users/").removesuffix(":explain")
            return self._json(http, self.explanations.get(uid) or nobody(uid))
        return self._json(http, {"error": {"code": "not_found", "message": "no such route"}}, 404)

    def _send(self, http, status, kind, body, **fields):
        http.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body),
                            "Cache-Control": "no-store", **fields}.items():
            http.send_header(name, str(value))
        http.end_headers()
        http.wfile.write(body)

    def _json(self, http, value, status=200):
        self._send(http, status, "application/json", json.dumps(value).encode())

    def _page(self, http, path):
        if not path.is_file():
            return self._json(http, {"error": {"code": "not_found", "message": "no file"}}, 404)
        return self._send(http, 200, TYPES[path.suffix], path.read_bytes(),
                          **{"Content-Security-Policy": POLICY})

    def _ticks(self):
        return int(time.monotonic() - self.started) + 1000

    def _status(self):
        return {"phase": "serving", "version": "0.1.0", "epoch": self.epoch,
                "uptime_s": time.monotonic() - self.started, "restart_grace_s": 0, "shards": 2,
                "tick_s": 1.0, "connections": self.users,
                "users": {"online": self.users, "lingering": 12, "offline_remembered": 431},
                "packets": {"logins": self.users, "keepalives": self._ticks() * 500, "messages": 0},
                "edges": {"last_seq": self.last_seq(), "online": 1, "offline": 1, "dropped": 0},
                "lateness_s": {"min": 0.002, "max": 1.001}, "loop_delay_s": {"max": 0.0041},
                "stalls": 0, "redis": {"mode": "off"}}

    def _metrics(self):
        n = self._ticks() * 40
        lines = [f'pulsewheel_edges_total{{kind="online",reason="login"}} {n + random.random() * 40}',
                 f'pulsewheel_edges_total{{kind="offline",reason="timeout"}} {n - random.random() * 40}',
                 f'pulsewheel_packets_total{{type="keepalive"}} {n * 12 + random.random() * 60}']
        for name, scale in (("expiry_lateness", 1.0), ("loop_delay", 0.004)):
            for i, bound in enumerate((0.1, 0.25, 0.5, 0.75, 1.0, 2.0, float("inf"))):
                le = "+Inf" if bound == float("inf") else repr(bound * scale)
                share = min(bound, 1) * n * (1 if i > 3 else 0.97 + random.random() * 0.03)
                lines.append(f'pulsewheel_{name}_seconds_bucket{{le="{le}"}} {share}')
        return "\n".join(lines) + "\n"

    def _wheel(self):
        tick = self._ticks()
        hand = tick % SLOTS
        slots = [0 if i == hand else self.slots[i] for i in range(SLOTS)]
        levels = [{"ticks_per_slot": SLOTS ** i, "hand": tick // SLOTS ** i % SLOTS,
                   "slots": slots if i == 0 else [0] * SLOTS} for i in range(4)]
        return {"tick_s": 1.0, "levels": levels, "shards": [
            {"shard": 0, "tick": tick, "clock_tick": tick, "armed": sum(slots), "levels": levels}]}

    def _events(self, http, query):
        uid = quote(query["uid"][0].encode("utf-8", "surrogateescape"), safe="-._~") if "uid" in query else None
        if "cursor" in query:
            epoch, seq = map(int, query["cursor"][0].split("-"))
        else:
            epoch, seq = self.epoch, max(self.forgotten, self.last_seq() - int(query["tail"][0]))
        if "text/event-stream" not in http.headers["Accept"]:
            found, seq = self._after(epoch, seq, uid)
            return self._json(http, {"events": [event for _, _, event in found],
                                     "cursor": f"{self.epoch}-{seq}", "more": False})
        if not self.streams_allowed:
            return self._json(http, {"error": {"code": "too_many_streams", "message": "full"}}, 503)
        http.send_response(200)
        http.send_header("Content-Type", "text/event-stream")
        http.end_headers()
        http.close_connection = True
        http.wfile.write(f"retry: 2000\nid: {epoch}-{seq}\n\n".encode())
        while self.streams_allowed and self.answers:
            with self.news:
                found, seq = self._after(epoch, seq, uid)
                if not found:
                    self.news.wait(0.2)
            for at, name, event in found:
                http.wfile.write((f"id: {self.epoch}-{at}\n"
                                  + (f"event: {name}\n" if name != "message" else "")
                                  + f"data: {json.dumps(event)}\n\n").encode())
            if found and epoch != self.epoch:
                epoch = self.epoch
        return None

    def _after(self, epoch, seq, uid):
        """The events behind a cursor, and where to go on."""
        if epoch != self.epoch or seq < self.forgotten:
            newest = self.last_seq()
            return [(newest, "resync", {
                "resync": True, "reason": "too_old" if epoch == self.epoch else "other_epoch",
                "cursor": f"{self.epoch}-{newest}", "snapshot": "/v1/users?state=online"})], newest
        found = [entry for entry in self.events if entry[0] > seq
                 and (uid is None or entry[2].get("uid") in (None, uid))]
        return found, max(seq, self.last_seq())


def nobody(uid):
    """The explanation of a user of whom nothing is known."""
    return {"uid": uid, "state": "offline", "since_ms": None, "last_seen_ms": None,
            "summary": "offline: nothing is known of this user", "home_shard": 0,
            "now_ms": int(time.time() * 1000), "hold": None, "sessions": [], "edges": []}


def somebody(uid, tick=1000):
    """The explanation of a user with a session."""
    now = int(time.time() * 1000)
    return {"uid": uid, "state": "online", "since_ms": now - 61_000, "last_seen_ms": now - 4_000,
            "summary": "online: 1 session, last packet 4.0 s ago", "home_shard": 1, "now_ms": now,
            "hold": None,
            "sessions": [{"id": "4503599627370498", "shard": 0, "device": "phone%20%F0%9F%93%B1",
                          "lingering": False, "login_at_ms": now - 61_000,
                          "last_seen_ms": now - 4_000, "deadline_ms": now + 26_000,
                          "timeout_ms": 30_000, "address": "192.0.2.7:40123",
                          "packet_age_ms": 4_000, "remaining_ms": 26_000,
                          "wheel": {"level": 0, "slot": (tick + 26) % SLOTS}}],
            "edges": [{"kind": "online", "reason": "login", "at_ms": now - 61_000,
                       "last_seen_ms": None}]}


def main():
    stub = StubDaemon(int(sys.argv[1]) if len(sys.argv) > 1 else 7611)
    print(stub.url)
    stub.explanations["alice"] = somebody("alice")
    stub.edge(b"<img src=x onerror=alert(1)>")
    stub.edge("\u202eevil\x00".encode() + b"\xff")
    stub.edge("שלום".encode())
    for i in range(10_000):
        time.sleep(random.expovariate(3))
        stub.edge(f"user-{i:05d}".encode(), *random.choice((("online", "login"),
                                                            ("offline", "timeout"),
                                                            ("offline", "logout"))))


if __name__ == "__main__":
    main()
