#!/usr/bin/env python3
"""image_trial.py SOURCE [--work FOLDER]: tries docker/ without Docker.

Carries out the Dockerfile's steps in debootstrap trees, then runs what docker-compose.yml says in
them, each service as its user, without capabilities and with a read-only root, on a network of their
own: Redis, the daemon, their healthchecks, the simulator, and the stop. Wants root, and the packages
debootstrap, docker-compose and python3-yaml; the build takes 20 minutes on two cores.

What only Docker itself does is not tried: its seccomp and AppArmor profiles, cgroups, ulimits,
published ports, and the official images themselves (Debian's redis-server stands in for Redis').

--work FOLDER keeps the trees there; those that an earlier run finished are not built again.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

import dockerfile
from docker_check import seconds
from image_tree import Builder, TrialError, inside, mount_system, private_network, run
from trial import Trial

NICENESS = 10
HEALTHY_SECONDS_MAX = 60
SIMULATOR_SECONDS_MAX = 180
# What stands in for images that are not ours.
STAND_INS = {"redis:7.2-bookworm": ["redis-server"]}
# A load that says whether the parts fit together; how fast they are is for others to measure.
LOAD = {"SIM_CONNECTIONS": "500", "SIM_DURATION": "45s"}
PASSWORD = "correct-horse-battery-staple"


TRIAL = Trial("image")
say, check = TRIAL.say, TRIAL.check


class Container:
    """One service of the compose file in a tree of its own."""

    def __init__(self, name, service, tree, settings, place):
        self.name, self._place = name, place
        self._root = place / "containers" / name
        self._user = service.get("user", settings.user)
        self._env = settings.env | {key: str(value) for key, value in
                                    service.get("environment", {}).items()}
        command = [_unescaped(word) for word in service.get("command", settings.cmd)]
        self._command = service.get("entrypoint", settings.entrypoint) + command
        self._healthcheck = _healthcheck_of(service) or settings.healthcheck
        self._stop_signal = service.get("stop_signal", settings.stop_signal)
        self.stop_grace = seconds(service.get("stop_grace_period", "10s"))
        self._log = place / f"{name}.log"
        self._process = None
        self._make_root(service, tree)

    def _make_root(self, service, tree):
        volumes = [entry.split(":") for entry in service.get("volumes", [])]
        secrets = [entry["source"] for entry in service.get("secrets", [])]
        for secret in secrets:
            (tree / "run/secrets").mkdir(parents=True, exist_ok=True)
            (tree / "run/secrets" / secret).touch()
        self._root.mkdir(parents=True)
        run("mount", "--bind", tree, self._root)
        if service.get("read_only"):
            run("mount", "-o", "remount,bind,ro", self._root)
        mount_system(self._root)
        for volume, target, mode in volumes:
            run("mount", "--bind", self._volume(volume, tree / target[1:]), self._root / target[1:])
            run("mount", "-o", f"remount,bind,{mode}", self._root / target[1:])
        for secret in secrets:
            target = self._root / "run/secrets" / secret
            run("mount", "--bind", self._place / "secrets" / secret, target)
            run("mount", "-o", "remount,bind,ro", target)

    def _volume(self, name, first_content):
        """A named volume; a new one is a copy of the image's folder, owner and mode included."""
        volume = self._place / "volumes" / name
        if not volume.exists():
            volume.parent.mkdir(exist_ok=True)
            run("cp", "-a", "-x", first_content, volume)
        return volume

    def _inside(self, command):
        return inside(self._root, command, user=self._user, env=self._env, confined=True)

    def start(self):
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(self._inside(self._command), stdout=log,
                                             stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def execute(self, *command):
        """`docker exec`: (exit code, output)."""
        done = subprocess.run(self._inside(list(command)), stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.STDOUT, text=True, timeout=HEALTHY_SECONDS_MAX)
        return done.returncode, done.stdout

    def healthy(self):
        return self.execute(*self._healthcheck)[0] == 0

    def wait_until_healthy(self):
        begin = time.monotonic()
        while not self.healthy():
            late = time.monotonic() - begin > HEALTHY_SECONDS_MAX
            if late or self._process.poll() is not None:
                raise TrialError(f"{self.name} does not get healthy:\n{self.log()}")
            time.sleep(0.2)
        say(f"ok: {self.name} is healthy after {time.monotonic() - begin:.1f} s")

    def wait(self, limit):
        return self._process.wait(limit)

    def stop(self):
        """(exit code, seconds), by the signal that Docker would send."""
        begin = time.monotonic()
        self._process.send_signal(signal.Signals[self._stop_signal])
        return self._process.wait(self.stop_grace), time.monotonic() - begin

    def log(self):
        return self._log.read_text(errors="replace")

    def status(self):
        """/proc/PID/status as a dict."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return {key: value.split() for key, _, value in (line.partition(":") for line in lines)}

    def command_lines(self):
        """The arguments of the process, as `ps` shows them to everybody."""
        return Path(f"/proc/{self._process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def _unescaped(word):
    return word.replace("$$", "$")


def _healthcheck_of(service):
    kind, *command = service.get("healthcheck", {}).get("test", [""])
    if kind == "CMD-SHELL":
        return ["/bin/sh", "-c", _unescaped(command[0])]
    return [_unescaped(word) for word in command]


def compose_services(source, work):
    """The services as docker-compose understands them, variables replaced. Their one secret is a
    file of the trial's own."""
    secrets = work / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "redis_password").write_text(PASSWORD + "\n")
    (secrets / "redis_password").chmod(0o444)
    text = run("docker-compose", "-f", source / "docker/docker-compose.yml", "--profile", "load",
               "config", env=os.environ | LOAD)
    return yaml.safe_load(text)["services"]


def build(source, work):
    """{service: Container}, all trees built."""
    builder = Builder(source, work, say)
    services = compose_services(source, work)
    parts = {}
    for name, service in services.items():
        if "build" in service:
            target = service["build"]["target"]
            parts[name] = (builder.stage(target), dockerfile.settings(builder.stages, target))
        else:
            tree = builder.debian_with(name, STAND_INS[service["image"]])
            prepare_redis(tree)
            parts[name] = (tree, dockerfile.Settings())
    hosts = "127.0.0.1 localhost " + " ".join(services) + "\n"
    for tree, _ in parts.values():
        (tree / "etc/hosts").write_text(hosts)
    report_sizes(work, builder)
    return {name: Container(name, services[name], *parts[name], work) for name in services}


def prepare_redis(tree):
    """The official image's folder for data, and its user's number."""
    (tree / "data").mkdir(exist_ok=True)
    os.chown(tree / "data", 999, 999)


def report_sizes(work, builder):
    base = dockerfile.chain(builder.stages, "daemon")[0].base
    for name in ("bookworm", "build", "daemon", "simulator"):
        size = run("du", "-smx", work / name).split()[0]
        say(f"{name}: {size} MB" + (f" (stands for {base})" if name == "bookworm" else ""))
    left = [name for name in ("g++", "cmake", "ninja", "curl", "gdb")
            if (work / "daemon/usr/bin" / name).exists()]
    check("the daemon's image has no tools of the build in it", not left, " ".join(left))


def try_redis(redis):
    redis.start()
    redis.wait_until_healthy()
    check("Redis answers nobody without the password",
          "NOAUTH" in redis.execute("redis-cli", "ping")[1])
    check("the password is not among Redis' arguments", PASSWORD not in redis.command_lines(),
          redis.command_lines())


def try_daemon(daemon):
    check("the healthcheck fails where no daemon runs", not daemon.healthy())
    daemon.start()
    daemon.wait_until_healthy()
    status = daemon.status()
    check("the daemon runs as 7600:7600", status["Uid"] == ["7600"] * 4 and
          status["Gid"] == ["7600"] * 4, str(status))
    check("the daemon has no capability", int(status["CapEff"][0], 16) == 0 and
          int(status["CapBnd"][0], 16) == 0, str(status))
    code, output = daemon.execute("/bin/sh", "-c", ": >/etc/pulsewheel/x")
    check("its root is read-only", code != 0 and "Read-only" in output, output)
    code, output = daemon.execute("/usr/bin/pulsewheeld", "--check-config")
    check("its configuration is valid", code == 0, output)


def try_load(simulator, daemon, redis):
    simulator.start()
    command = "REDISCLI_AUTH=$(cat /run/secrets/redis_password) redis-cli HLEN timeline-index"
    begin, online = time.monotonic(), ""
    while online != LOAD["SIM_CONNECTIONS"] and time.monotonic() - begin < HEALTHY_SECONDS_MAX:
        online = redis.execute("/bin/sh", "-c", command)[1].strip()
    check(f"Redis knows the {LOAD['SIM_CONNECTIONS']} users of the simulator",
          online == LOAD["SIM_CONNECTIONS"], f"{online}\n{daemon.log()}")
    code = simulator.wait(SIMULATOR_SECONDS_MAX)
    check("the simulator finds nothing wrong", code == 0, simulator.log() + daemon.log())
    print(simulator.log().partition("\n\n")[2].rstrip())  # the report, without the progress


def try_stop(container):
    code, took = container.stop()
    check(f"{container.name} stops in order, in {took:.1f} s of {container.stop_grace:.0f} s",
          code == 0, container.log())


def trial(source, work):
    os.nice(NICENESS)
    for name in ("containers", "volumes", "secrets"):  # an earlier run's
        shutil.rmtree(work / name, ignore_errors=True)
    containers = build(source, work)
    redis, daemon, simulator = (containers[name] for name in ("redis", "pulsewheeld", "simulator"))
    private_network()
    try_redis(redis)
    try_daemon(daemon)
    try_load(simulator, daemon, redis)
    try_stop(daemon)
    files = sorted((work / "volumes/state").iterdir())
    check("the volume holds the daemon's files, and they are its own",
          files and all(file.stat().st_uid == 7600 for file in files), str(files))
    daemon.start()
    daemon.wait_until_healthy()
    say("ok: the daemon starts again on the same volume")
    try_load(simulator, daemon, redis)
    try_stop(daemon)
    try_stop(redis)


if __name__ == "__main__":
    sys.exit(TRIAL.main(__doc__, trial, inputs=("source",)))
