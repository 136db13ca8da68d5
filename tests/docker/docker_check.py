#!/usr/bin/env python3
"""docker_check.py SOURCE [--daemon PULSEWHEELD | --self-test]: what Docker and Compose would refuse in
docker/, and what its files promise: that they fit each other, the configuration, and least privilege.

Compose's own rules are checked by docker-compose 1.29 (`docker-compose config`, which needs no
Docker); what later versions refuse as well, and the rest, by the functions below. Each yields its
problems as sentences. --daemon has a daemon check the configuration that Compose gives it.
--self-test breaks the files in many ways and expects each to be found.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

import dockerfile

TOP_LEVEL = {"name", "services", "networks", "volumes", "secrets", "configs"}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
DURATION = re.compile(r"(?=\d)(\d+h)?(\d+m)?(\d+(\.\d+)?s)?(\d+ms)?")
HTTP_PORT = "7601"
ANSWER_SECONDS_MAX = 60


class Files:
    """What is checked."""

    def __init__(self, source):
        self.source = Path(source)
        self.compose_text = self._read("docker/docker-compose.yml")
        self.dockerfile_text = self._read("docker/Dockerfile")
        self.ignore_text = self._read(".dockerignore")
        self.config_text = self._read("config/pulsewheel.toml")

    def _read(self, name):
        return (self.source / name).read_text(encoding="utf-8")

    def replace(self, attribute, old, new):
        text = getattr(self, attribute)
        if old not in text:
            raise ValueError(f"{attribute} does not hold {old!r}")
        setattr(self, attribute, text.replace(old, new))


def seconds(duration):
    """1m30s as a number."""
    units = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
    return sum(float(number) * units[unit]
               for number, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", duration))


def is_duration(value):
    return isinstance(value, str) and DURATION.fullmatch(value) is not None


# Compose.

def what_compose_refuses(files):
    """The verdict of docker-compose itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "docker-compose.yml"
        path.write_text(files.compose_text, encoding="utf-8")
        environment = {"PATH": os.environ["PATH"], "HOME": folder}
        try:
            done = subprocess.run(["docker-compose", "-f", path, "config", "-q"], env=environment,
                                  text=True, capture_output=True, check=False,
                                  timeout=ANSWER_SECONDS_MAX)
        except FileNotFoundError:
            yield "docker-compose is missing: install the package, or run ./dev test"
            return
    if done.returncode != 0:
        yield "docker-compose config: " + done.stderr.strip()


def check_names(compose):
    """Everything that is named is defined, and used."""
    for key in set(compose) - TOP_LEVEL:
        yield f"unknown key at the top: {key}"
    services = compose["services"]
    for kind in ("networks", "volumes", "secrets"):
        used = set()
        for name, service in services.items():
            for entry in service.get(kind, []):
                reference = entry.split(":")[0] if isinstance(entry, str) else entry["source"]
                if not reference.startswith((".", "/")):
                    used.add(reference)
                if reference not in compose.get(kind, {}) and not reference.startswith((".", "/")):
                    yield f"{name}: {kind}: {reference} is not defined"
        for unused in set(compose.get(kind, {})) - used:
            yield f"{kind}: {unused} is used by no service"


def check_dependencies(compose, images):
    services = compose["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            if other not in services:
                yield f"{name}: depends_on: {other} is no service"
                continue
            if how.get("condition") not in CONDITIONS:
                yield f"{name}: depends_on: {other}: unknown condition {how.get('condition')}"
            probed = "healthcheck" in services[other] or images[other].healthcheck
            if how.get("condition") == "service_healthy" and not probed:
                yield f"{name}: waits for the health of {other}, which has no healthcheck"
            missing = set(services[other].get("profiles", [])) - set(service.get("profiles", []))
            if missing:
                yield f"{name}: depends on {other}, which is there with profile {missing} only"


def check_healthchecks(compose):
    for name, service in compose["services"].items():
        health = service.get("healthcheck", {})
        test = health.get("test", ["NONE"])
        if not isinstance(test, list) or test[0] not in ("CMD", "CMD-SHELL", "NONE"):
            yield f"{name}: healthcheck: test wants a list that begins with CMD or CMD-SHELL"
        elif test[0] == "CMD-SHELL" and len(test) != 2:
            yield f"{name}: healthcheck: CMD-SHELL wants one string"
        for key in {"interval", "timeout", "start_period"} & set(health):
            if not is_duration(health[key]):
                yield f"{name}: healthcheck: {key}: {health[key]!r} is no duration"


def check_privileges(name, service, image):
    """Least privilege, for every container."""
    if service.get("user", image.user).split(":")[0] in ("0", "root"):
        yield f"{name}: runs as root"
    if not service.get("read_only"):
        yield f"{name}: its root is writable (read_only)"
    if service.get("cap_drop") != ["ALL"] or "cap_add" in service or service.get("privileged"):
        yield f"{name}: keeps capabilities (cap_drop: [ALL])"
    if "no-new-privileges:true" not in service.get("security_opt", []):
        yield f"{name}: may gain privileges (no-new-privileges:true)"
    for key in service.get("environment", {}):
        if "PASSWORD" in key and not key.endswith("_FILE"):
            yield f"{name}: a password in the environment: {key}"
    for port in service.get("ports", []):
        if str(port).split(":")[-1] == HTTP_PORT and not str(port).startswith("127.0.0.1:"):
            yield f"{name}: publishes the HTTP port beyond loopback: {port}"


def check_fit(files, name, service, image):
    """The compose file, the image and the configuration agree."""
    for port in service.get("ports", []) if "build" in service else []:
        if str(port).split(":")[-1] not in image.ports:
            yield f"{name}: publishes {port}, which the image does not EXPOSE"
    for volume in service.get("volumes", []):
        target = volume.split(":")[1]
        if "pulsewheeld" in image.entrypoint[0] and target not in image.volumes:
            yield f"{name}: {target} is no VOLUME of the image"
    if "pulsewheeld" not in image.entrypoint[0]:
        return
    environment = service.get("environment", {})
    window = environment.get("PULSEWHEEL_DRAIN_WINDOW") or default_of(files.config_text, "window")
    grace = service.get("stop_grace_period", "10s")
    if not is_duration(grace) or seconds(grace) <= seconds(window):
        yield f"{name}: stop_grace_period {grace} is not longer than drain.window {window}"
    connections = int(environment.get("PULSEWHEEL_SERVER_MAX_CONNECTIONS")
                      or default_of(files.config_text, "max_connections"))
    if service.get("ulimits", {}).get("nofile", {}).get("soft", 0) <= connections:
        yield f"{name}: fewer descriptors (nofile) than server.max_connections {connections}"


def default_of(config_text, key):
    """The default of a key, which stands commented out in the configuration file."""
    return re.search(rf'^#{key} = "?([^"\n]*)"?$', config_text, re.M)[1]


def images_of(compose, stages):
    """{service: Settings}, empty ones for images that are not ours."""
    return {name: dockerfile.settings(stages, service["build"]["target"])
            if "build" in service else dockerfile.Settings(user="0:0", entrypoint=["unknown"])
            for name, service in compose["services"].items()}


def check_compose(files, stages):
    compose = yaml.safe_load(files.compose_text)
    for name, service in compose["services"].items():
        if not {"image", "build"} & set(service):
            yield f"{name}: neither image nor build"
            return
        target = service.get("build", {}).get("target")
        if target and target not in (stage.name for stage in stages):
            yield f"{name}: the Dockerfile has no stage {target}"
            return
        if ":" not in service["image"] and "build" not in service:
            yield f"{name}: an image without a version: {service['image']}"
    images = images_of(compose, stages)
    yield from check_names(compose)
    yield from check_dependencies(compose, images)
    yield from check_healthchecks(compose)
    for name, service in compose["services"].items():
        yield from check_privileges(name, service, images[name])
        yield from check_fit(files, name, service, images[name])


def what_the_daemon_refuses(files, daemon):
    """The verdict of `pulsewheeld --check-config` in the environment that its container has."""
    stages = dockerfile.parse(files.dockerfile_text)
    compose = yaml.safe_load(files.compose_text)
    for name, image in images_of(compose, stages).items():
        if "pulsewheeld" not in image.entrypoint[0]:
            continue
        own = compose["services"][name].get("environment", {})
        environment = image.env | {key: str(value) for key, value in own.items()}
        environment["PULSEWHEEL_CONFIG"] = str(files.source / "config/pulsewheel.toml")
        done = subprocess.run([daemon, "--check-config"], env=environment, text=True,
                              capture_output=True, check=False, timeout=ANSWER_SECONDS_MAX)
        if done.returncode != 0:
            yield f"{name}: {done.stderr.strip()}"


# Dockerfile and .dockerignore.

def check_image(stage_name, stages):
    """One that is shipped."""
    image = dockerfile.settings(stages, stage_name)
    if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", image.user):
        yield f"{stage_name}: USER {image.user}: wants numbers, and not root's"
    if not image.entrypoint or image.entrypoint[0] == "/bin/sh":
        yield f"{stage_name}: ENTRYPOINT wants the exec form: a shell would swallow SIGTERM"
    if "org.opencontainers.image.title" not in image.labels:
        yield f"{stage_name}: no org.opencontainers.image.title"
    for stage in dockerfile.chain(stages, stage_name):
        for step in stage.instructions:
            if step.name == "RUN" and "apt-get install" in step.text:
                for part in ("apt-get update", " -y ", "--no-install-recommends",
                             "rm -rf /var/lib/apt/lists/*"):
                    if part not in step.text:
                        yield f"line {step.line}: apt-get install without {part.strip()}"


def check_dockerfile(files, stages):
    names = [stage.name for stage in stages]
    sent = dockerfile.context_files(files.source, dockerfile.DockerIgnore(files.ignore_text))
    for stage in stages:
        if stage.base not in names and not re.search(r":(?!latest$)", stage.base):
            yield f"stage {stage.name}: an image without a version: {stage.base}"
        for step in stage.instructions:
            if step.name == "WORKDIR" and not step.text.startswith("/"):
                yield f"line {step.line}: WORKDIR is not absolute"
            if step.name == "COPY" and "from" not in step.flags:
                yield from check_copy(step, sent)
            elif step.name == "COPY" and step.flags["from"] not in names:
                yield f"line {step.line}: COPY --from={step.flags['from']}: no such stage"
    daemon = dockerfile.settings(stages, names[-1])
    if "pulsewheeld" not in daemon.entrypoint[0]:
        yield "the last stage, which is built by default, is not the daemon"
    if not daemon.healthcheck or "pulsewheelctl" not in daemon.healthcheck[0]:
        yield "the daemon's HEALTHCHECK is not by pulsewheelctl"


def check_copy(step, sent):
    for source in map(os.path.normpath, step.words()[:-1]):
        if source != "." and not any(path == source or path.startswith(source + "/")
                                     for path in sent):
            yield f"line {step.line}: COPY: .dockerignore leaves out {source}, or it is not there"


def check_ignore(files):
    ignore = dockerfile.DockerIgnore(files.ignore_text)
    for path in ("docker/secrets/redis_password", ".git/config", "build/dev/bin/pulsewheeld", ".env"):
        if ignore.lets_in(path):
            yield f".dockerignore lets {path} into images"
    for path in ("dev", "CMakeLists.txt", "CMakePresets.json", "daemon/main.cc"):
        if not ignore.lets_in(path):
            yield f".dockerignore leaves out {path}"


def own_rules(files):
    try:
        stages = dockerfile.parse(files.dockerfile_text)
        shipped = [stage.name for stage in stages if stage.name not in ("build", "runtime")]
        found = list(check_compose(files, stages)) + list(check_dockerfile(files, stages))
        found += [problem for name in shipped for problem in check_image(name, stages)]
        return found + list(check_ignore(files))
    except dockerfile.DockerfileError as error:
        return [f"Dockerfile: {error}"]


# (file, text, what replaces it, a part of the sentence that must come of it)
FOR_COMPOSE = [
    ("compose_text", "services:", "servces:", "servces"),
    ("compose_text", "profiles: [load]", "profles: [load]", "profles"),
    ("compose_text", "nofile:\n        soft: 131072", "nofile:\n        sft: 131072", "'soft' is a required"),
    ("compose_text", "read_only: true", "read_only: [true", "while parsing"),
]
FOR_US = [
    ("compose_text", "volumes:\n  redis-data", "volums:\n  redis-data", "volums"),
    ("compose_text", "image: redis:7.2-bookworm", "image: redis", "without a version"),
    ("compose_text", "image: redis:7.2-bookworm", "hostname: x", "neither"),
    ("compose_text", "target: daemon", "target: demon", "no stage demon"),
    ("compose_text", "  state:\n", "", "state is not defined"),
    ("compose_text", "networks: [redis]", "networks: [redsi]", "redsi"),
    ("compose_text", "  redis_password:\n    file", "  redis_pass:\n    file", "redis_password"),
    ("compose_text", "interval: 5s", "interval: 5 sec", "interval"),
    ("compose_text", '["CMD-SHELL", ', "[", "CMD-SHELL"),
    ("compose_text", "      redis:\n        condition", "      radis:\n        condition", "radis"),
    ("compose_text", "condition: service_healthy", "condition: service_well", "service_well"),
    ("compose_text", "    stop_grace_period: 30s", "    stop_grace_period: 10s", "drain.window"),
    ("compose_text", "    read_only: true\n", "", "read_only"),
    ("compose_text", "    cap_drop: [ALL]\n", "", "capabilities"),
    ("compose_text", '    user: "999:999"\n', "", "runs as root"),
    ("compose_text", "127.0.0.1:7601:7601", "7601:7601", "beyond loopback"),
    ("compose_text", "7600:7600", "7600:7700", "EXPOSE"),
    ("compose_text", "PULSEWHEEL_REDIS_PASSWORD_FILE:", "PULSEWHEEL_REDIS_PASSWORD:", "a password"),
    ("compose_text", "soft: 131072", "soft: 1024", "fewer descriptors"),
    ("dockerfile_text", "USER 7600:7600", "USER pulsewheel", "wants numbers"),
    ("dockerfile_text", "USER 7600:7600\n", "", "wants numbers"),
    ("dockerfile_text", "debian:12-slim", "debian:latest", "without a version"),
    ("dockerfile_text", "FROM debian:12-slim AS build", "FROM debian:12-slim AS bild", "no such stage"),
    ("dockerfile_text", 'ENTRYPOINT ["/usr/bin/pulsewheeld"]', "ENTRYPOINT pulsewheeld", "exec form"),
    ("dockerfile_text", 'ENTRYPOINT ["/usr/bin/pulsewheeld"]', "ENTRYPOINT [pulsewheeld]", "no JSON"),
    ("dockerfile_text", "COPY config/pulsewheel.toml", "COPY config/pulsewheeld.toml", "leaves out"),
    ("dockerfile_text", "--no-install-recommends", "", "--no-install-recommends"),
    ("dockerfile_text", "EXPOSE", "EXPOZE", "unknown instruction"),
    ("dockerfile_text", "WORKDIR /src", "WORKDIR src", "not absolute"),
    ("ignore_text", "*\n", "", "lets docker/secrets"),
    ("ignore_text", "!dev\n", "", "leaves out dev"),
]


def self_test(source):
    failures = 0
    for rules, breakages in ((what_compose_refuses, FOR_COMPOSE), (own_rules, FOR_US)):
        for attribute, old, new, expected in breakages:
            files = Files(source)
            files.replace(attribute, old, new)
            found = list(rules(files))
            if not any(expected in problem for problem in found):
                print(f"{old!r} -> {new!r}: wanted {expected!r} among {found}")
                failures += 1
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("--daemon", metavar="PULSEWHEELD")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return 1 if self_test(arguments.source) else 0
    files = Files(arguments.source)
    if arguments.daemon:
        found = list(what_the_daemon_refuses(files, arguments.daemon))
    else:
        found = list(what_compose_refuses(files)) or own_rules(files)
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
