"""A pulsewheeld for tests in Python, and clients for it."""

import json
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

LOGIN, KEEPALIVE, LOGOUT = 0x01, 0x02, 0x04  # proto/PROTOCOL.md
LOGIN_ACK, LOGOUT_ACK = 0x81, 0x84
WAIT_S = 15


class RealDaemon:
    """On free ports, with its state in a folder of its own; a context manager."""

    def __init__(self, program, *settings):
        """`settings` are KEY=VALUE, as for --set."""
        self._folder = tempfile.TemporaryDirectory(prefix="pulsewheel-test-")
        folder = Path(self._folder.name)
        ports_file = folder / "ports"
        arguments = [program]
        for setting in ("listener.0.address=127.0.0.1", "listener.0.port=0", "http.port=0",
                        f"server.state_dir={folder / 'state'}", f"server.ports_file={ports_file}",
                        *settings):
            arguments += ["--set", setting]
        self._log = open(folder / "log", "w+", encoding="utf-8")
        self._process = subprocess.Popen(arguments, stdout=self._log, stderr=self._log)
        end = time.monotonic() + WAIT_S
        while not ports_file.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                self.close()
                raise RuntimeError("the daemon did not start")
            time.sleep(0.02)
        ports = json.loads(ports_file.read_text(encoding="utf-8"))
        self.port = ports["listeners"][0]["port"]
        self.url = f"http://127.0.0.1:{ports['http']['port']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Stops it at once, without a drain."""
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._folder.cleanup()

    @property
    def pid(self):
        return self._process.pid

    def get(self, path):
        """The text of an answer."""
        with urllib.request.urlopen(self.url + path, timeout=WAIT_S) as answer:
            return answer.read().decode()


class Client:
    """A user who is logged in."""

    def __init__(self, daemon, uid, device=b""):
        """Returns once the daemon has answered. `uid` in bytes."""
        self._socket = socket.create_connection(("127.0.0.1", daemon.port), timeout=WAIT_S)
        fields = struct.pack(">BBIBBH", 1, 1, 0, len(uid), len(device), 0)
        self.send(LOGIN, fields + uid + device)
        self._wait_for(LOGIN_ACK)

    def send(self, kind, payload=b""):
        self._socket.sendall(struct.pack(">BBH", kind, 0, len(payload)) + payload)

    def logout(self):
        self.send(LOGOUT)
        self._wait_for(LOGOUT_ACK)
        self._socket.close()

    def close(self):
        """Without a word: the user lingers."""
        self._socket.close()

    def _read(self, size):
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the daemon closed the connection")
            data += piece
        return data

    def _wait_for(self, kind):
        while True:
            got, _, size = struct.unpack(">BBH", self._read(4))
            payload = self._read(size)
            if got == kind:
                return payload
