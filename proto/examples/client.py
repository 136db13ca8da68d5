#!/usr/bin/env python3
"""Logs in, stays online for SECONDS (30), logs out: client.py HOST PORT UID [SECONDS]"""
import os
import select
import socket
import struct
import sys
import time

LOGIN, KEEPALIVE, LOGOUT = 0x01, 0x02, 0x04  # PROTOCOL.md has all of them
LOGIN_ACK, KEEPALIVE_ACK, LOGOUT_ACK = 0x81, 0x82, 0x84
ERROR, SETTINGS, GOAWAY = 0xC0, 0xC1, 0xC2


def send(sock, kind, payload=b""):
    sock.sendall(struct.pack(">BBH", kind, 0, len(payload)) + payload)


def read(sock, size):
    data = b""
    while len(data) < size:
        if not (piece := sock.recv(size - len(data))):
            raise ConnectionError("the server closed the connection")
        data += piece
    return data


def receive(sock):
    kind, _, size = struct.unpack(">BBH", read(sock, 4))
    payload = read(sock, size)
    if kind == ERROR:
        raise ConnectionError("refused: " + payload[3 : 3 + payload[2]].decode())
    if kind == GOAWAY:
        reason, retry_after_ms = struct.unpack_from(">HI", payload)
        raise ConnectionError(f"goaway: reason {reason}, retry after {retry_after_ms} ms")
    return kind, payload


def run(host, port, uid, seconds):
    with socket.create_connection((host, port), timeout=10) as sock:
        sent = time.monotonic()
        send(sock, LOGIN, struct.pack(">BBIBBH", 1, 1, 0, len(uid), 7, 0) + uid + b"example")
        kind, payload = receive(sock)
        if kind != LOGIN_ACK:
            raise ConnectionError(f"frame type 0x{kind:02x} came instead of LOGIN_ACK")
        version, status, timeout_ms, interval_ms, session = struct.unpack_from(">BBIIQ", payload)
        print(f"login_ack version={version} status={status} timeout_ms={timeout_ms}"
              f" interval_ms={interval_ms} session={session}", flush=True)
        end, answered = time.monotonic() + seconds, True
        while (now := time.monotonic()) < end:
            due = sent + interval_ms / 1000
            if select.select([sock], [], [], max(0, min(due, end) - now))[0]:
                kind, payload = receive(sock)  # an unknown push is skipped
                answered |= kind == KEEPALIVE_ACK
                if kind == SETTINGS:
                    interval_ms = struct.unpack_from(">I", payload, 4)[0]
            elif time.monotonic() >= due:
                if not answered:
                    raise ConnectionError("the last KEEPALIVE was not acknowledged")
                sent, answered = time.monotonic(), False
                send(sock, KEEPALIVE)
        send(sock, LOGOUT)
        while receive(sock)[0] != LOGOUT_ACK:
            pass
        print("logged out")


if len(sys.argv) not in (4, 5):
    sys.exit(__doc__)
try:
    run(sys.argv[1], int(sys.argv[2]), os.fsencode(sys.argv[3]), float((sys.argv + [30])[4]))
except (OSError, ValueError, struct.error) as error:
    sys.exit(f"client.py: {error}")
