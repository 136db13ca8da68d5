#!/usr/bin/env python3
"""package_trial.py SOURCE DEB [--work FOLDER]: the life of the Debian package, under a real systemd.

Installs DEB with apt in a fresh Debian 12, boots that one's systemd in namespaces, and has it start,
reload, restart and watch the daemon, in the sandbox of its unit and with its socket; then the package
is upgraded, removed and purged. Checks after each step what is there. Wants root and the package
debootstrap.

--work FOLDER keeps the fresh Debian there; one that an earlier run has made is not made again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from image_tree import Builder, inside, mount_system, run
from machine import Machine
from trial import Trial

PACKAGE, SERVICE, SOCKET, USER = "pulsewheel", "pulsewheeld.service", "pulsewheeld.socket", "pulsewheel"
CONFFILE, STATE = "etc/pulsewheel/pulsewheel.toml", "var/lib/pulsewheel"
ENABLED = f"etc/systemd/system/multi-user.target.wants/{SERVICE}"
DROP_INS = "etc/systemd/system"
PROGRAMS = ("pulsewheeld", "pulsewheelctl", "pulsewheel-sim")
LATER_VERSION = "0.999"
# Both differ from the configuration that was installed, so dpkg asks, and without an answer keeps the
# administrator's.
OWN_CONFIG = ("[server]\nmax_connections = 1000\n[presence]\ntimeout = \"45s\"\n"
              "[drain]\nwindow = \"1s\"\n")
SHIPPED_LINE = "# shipped later\n"
# A client that says LOGIN (proto/PROTOCOL.md) by bash alone, and prints the type of the answer.
CLIENT = r"""exec 3<>/dev/tcp/127.0.0.1/7600 && printf '%b' '\x01\x00\x00\x0f\x01\x01\x00\x00\x00\x00\x05\x00\x00\x00alice' >&3
head -c 1 <&3 | od -An -tx1"""


TRIAL = Trial("package")
say, check, check_soon = TRIAL.say, TRIAL.check, TRIAL.check_soon


class Tree:
    """The Debian in which the package lives, seen from outside."""

    def __init__(self, root):
        self.root = root

    def run(self, *command):
        return run(*inside(self.root, [str(word) for word in command],
                           env={"DEBIAN_FRONTEND": "noninteractive"}))

    def has(self, path):
        return os.path.lexists(self.root / path)

    def read(self, path):
        return (self.root / path).read_text()

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def bring(self, deb):
        """Copies a package in; its path inside."""
        shutil.copy(deb, self.root / "var/cache" / Path(deb).name)
        return f"/var/cache/{Path(deb).name}"

    def status(self):
        command = ["dpkg-query", "-W", "-f=${db:Status-Abbrev}", PACKAGE]
        return subprocess.run(inside(self.root, command), stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL, check=False).stdout.strip()

    def user(self):
        """(uid, gid) of the package's user, None when there is none."""
        lines = (line.split(":") for line in self.read("etc/passwd").splitlines())
        return next(((int(entry[2]), int(entry[3])) for entry in lines if entry[0] == USER), None)


class Service:
    """The unit, as systemd sees it."""

    def __init__(self, machine):
        self._machine = machine

    def property(self, name):
        return self._machine.run("systemctl", "show", "--value", "-p", name, SERVICE).strip()

    def is_active(self):
        return self.property("ActiveState") == "active"

    def do(self, verb, unit=SERVICE):
        self._machine.run("systemctl", verb, unit)

    def log(self):
        return self._machine.ask("journalctl", "-u", SERVICE, "--no-pager")[1]


def try_installation(tree, deb):
    said = tree.run("apt-get", "install", "-y", "--no-install-recommends", tree.bring(deb))
    check("apt installs it with what it depends on", tree.status() == "ii", said)
    check(f"there is a user {USER}, of the system's", tree.user() and tree.user()[0] < 1000,
          str(tree.user()))
    check("its state folder belongs to that user alone",
          (tree.root / STATE).stat().st_uid == tree.user()[0] and
          (tree.root / STATE).stat().st_mode & 0o7777 == 0o750)
    check("the service is enabled, the socket is not",
          tree.has(ENABLED) and not tree.has(f"{DROP_INS}/sockets.target.wants/{SOCKET}"))
    for program in PROGRAMS:
        tree.run(program, "--version")
        check(f"{program} runs, and has a manual page and a completion",
              tree.has(f"usr/share/bash-completion/completions/{program}") and
              any(tree.has(f"usr/share/man/man{part}/{program}.{part}.gz") for part in (1, 8)))
    files = [tree.root / path[1:] for path in tree.run("dpkg-query", "-L", PACKAGE).splitlines()]
    check("all of its files are root's, and nobody else may write them",
          all(entry.st_uid == 0 and not entry.st_mode & 0o022
              for entry in (path.stat() for path in files if not path.is_symlink())))


def try_service(tree, machine):
    service = Service(machine)
    check("systemd has started the service, with the boot", service.is_active(), service.log())
    check("it says what it does", service.property("StatusText").startswith("serving: "),
          service.property("StatusText"))
    code, said = machine.ask("systemd-analyze", "verify", "--man=no", SERVICE, SOCKET)
    check("systemd-analyze verify has nothing to say of the installed units",
          code == 0 and not said.strip(), said)
    pid = service.property("MainPID")
    status = machine.run("cat", f"/proc/{pid}/status")
    check("the daemon runs as its user, without a capability, behind a filter of system calls",
          f"Uid:\t{tree.user()[0]}\t" in status and "CapBnd:\t0000000000000000" in status and
          "Seccomp:\t2" in status, status)
    machine.run("pulsewheel-sim", "--target", "127.0.0.1:7600", "--connections", "200",
                "--duration", "2s", "--edges", f"/{STATE}/events.jsonl")
    say("ok: the packaged simulator finds nothing wrong with the daemon in its sandbox")
    machine.run("pulsewheelctl", "healthcheck")
    tree.write(CONFFILE, OWN_CONFIG)
    service.do("reload")
    check("a reload applies a new configuration", "30s\" is now \"45s" in service.log(), service.log())
    tree.write(CONFFILE, "[presence]\ntick = 12\n")
    code, _ = machine.ask("systemctl", "reload", SERVICE)
    check("a reload of a wrong one fails, and the daemon runs on", code != 0 and
          service.is_active() and service.property("MainPID") == pid, service.log())
    tree.write(CONFFILE, OWN_CONFIG)
    files = list((tree.root / STATE).iterdir())
    check("what the daemon has written is its own, and not for all to read",
          files and all(entry.stat().st_uid == tree.user()[0] and not entry.stat().st_mode & 0o007
                        for entry in files), str(files))


def try_watchdog(tree, machine):
    service = Service(machine)
    tree.write(f"{DROP_INS}/{SERVICE}.d/watchdog.conf", "[Service]\nWatchdogSec=2s\n")
    machine.run("systemctl", "daemon-reload")
    service.do("restart")
    machine.run("bash", "-c", f"kill -STOP {service.property('MainPID')}")
    check_soon("systemd ends a daemon that hangs, and starts another one",
               lambda: service.property("NRestarts") == "1" and service.is_active())
    check("for the watchdog", "Watchdog timeout" in service.log(), service.log())


def try_socket(tree, machine):
    service = Service(machine)
    service.do("stop")
    more = "".join("ListenStream=7600\n" for _ in range(2))
    tree.write(f"{DROP_INS}/{SOCKET}.d/shards.conf", f"[Socket]\nReusePort=yes\n{more}")
    machine.run("systemctl", "daemon-reload")
    service.do("start", SOCKET)
    check("with the socket alone no daemon runs", not service.is_active())
    check("the first client starts it, and is served", machine.run("bash", "-c", CLIENT).strip() == "81",
          service.log())
    check("each of three sockets has a shard", '"shards":3' in machine.run(
        "pulsewheelctl", "--json", "status"), service.log())
    answer = machine.run("bash", "-c", f"systemctl restart --no-block {SERVICE}; {CLIENT}").strip()
    check("a client that comes while it restarts is served", answer == "81", service.log())
    check_soon("and the daemon is back", service.is_active)


def later_version(deb, work):
    """The same package with a later version and another configuration."""
    folder = work / "later"
    shutil.rmtree(folder, ignore_errors=True)
    run("dpkg-deb", "-R", deb, folder)
    control = folder / "DEBIAN/control"
    lines = control.read_text().splitlines(keepends=True)
    control.write_text("".join(f"Version: {LATER_VERSION}\n" if line.startswith("Version:") else line
                               for line in lines))
    with open(folder / CONFFILE, "a", encoding="utf-8") as shipped:
        shipped.write(SHIPPED_LINE)
    later = work / "later.deb"
    run("dpkg-deb", "--root-owner-group", "-b", folder, later)
    return later


def try_upgrade(tree, machine, later):
    service = Service(machine)
    pid = service.property("MainPID")
    machine.run("systemctl", "disable", SERVICE)
    machine.run("dpkg", "-i", "--force-confdef", tree.bring(later))
    check(f"dpkg upgrades it to {LATER_VERSION}", tree.status() == "ii" and LATER_VERSION in
          machine.run("dpkg-query", "-W", PACKAGE))
    check("the administrator's configuration survives, the new one lies beside it",
          tree.read(CONFFILE) == OWN_CONFIG and
          tree.read(f"{CONFFILE}.dpkg-dist").endswith(SHIPPED_LINE))
    check("the daemon was started anew", service.is_active() and service.property("MainPID") != pid,
          service.log())
    check("who was online before is online after it",
          '"state":"online"' in machine.run("pulsewheelctl", "--json", "user", "alice"), service.log())
    check("a service that the administrator has disabled stays so", not tree.has(ENABLED))
    check("the events of before are still there", tree.has(f"{STATE}/events.jsonl"))


def try_removal(tree, machine):
    machine.run("dpkg", "--remove", PACKAGE)
    check("a removal stops service and socket, and leaves configuration and state",
          tree.status() == "rc" and tree.has(CONFFILE) and tree.has(f"{STATE}/events.jsonl") and
          not tree.has("usr/bin/pulsewheeld") and
          machine.ask("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/7600")[0] != 0)
    machine.run("rm", "-r", f"/{DROP_INS}/{SERVICE}.d", f"/{DROP_INS}/{SOCKET}.d")  # not the package's
    machine.run("dpkg", "--purge", PACKAGE)
    places = [tree.root / place for place in ("etc", "usr", "var/lib", "var/log")]
    left = run("find", *places, "-xdev", "-iname", "*pulsewheel*").split()
    check("a purge leaves nothing", tree.status() == "" and not left and
          machine.ask("test", "-e", "/run/pulsewheel")[0] != 0, "\n".join(left))
    check("but the user, who may own other files", tree.user() is not None)


def trial(source, deb, work):
    fresh = Builder(source, work, say).debian_with("fresh", [])
    tree = Tree(work / "tree")
    shutil.rmtree(tree.root, ignore_errors=True)
    run("cp", "-a", "-x", "--reflink=auto", fresh, tree.root)
    mount_system(tree.root)
    try_installation(tree, deb)
    later = later_version(deb, work)
    with Machine(tree.root, work) as machine:
        try_service(tree, machine)
        try_watchdog(tree, machine)
        try_socket(tree, machine)
        try_upgrade(tree, machine, later)
        try_removal(tree, machine)


if __name__ == "__main__":
    sys.exit(TRIAL.main(__doc__, trial, inputs=("source", "deb")))
