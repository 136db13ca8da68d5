#!/usr/bin/env python3
"""systemd_check.py SOURCE DAEMON: the units in docker/systemd are what systemd takes for right and for
well confined, they fit the defaults of DAEMON's configuration, and the user and folders that they
need come out of sysusers.conf and tmpfiles.conf.

    systemd_check.py --self-test   shows that the checks can fail

Needs systemd's own programs (package systemd, which need not run); without them it ends with exit code
77, and a word."""

import configparser
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

EXIT_SKIPPED = 77
SECONDS_MAX = 60
EXPOSURE_MAX = 1.5  # of 10; redis-server's unit in Debian has 1.2, mosquitto's 9.6
PROGRAM = "/usr/bin/pulsewheeld"
SYSTEMD_PROGRAMS = ("systemd-analyze", "systemd-sysusers", "systemd-tmpfiles")


def run(*command):
    """(exit code, what it said)"""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          timeout=SECONDS_MAX)
    return done.returncode, done.stdout.strip()


def verify(folder):
    """What systemd says about the units in the folder."""
    units = sorted(path for path in folder.iterdir() if path.suffix in (".service", ".socket"))
    code, said = run("systemd-analyze", "verify", "--man=no", *units)
    return [f"systemd-analyze verify: {said or f'exit code {code}'}"] if code or said else []


def exposure(unit):
    """The unit's score, 0 (best) to 10, if it is over the threshold; else nothing."""
    code, said = run("systemd-analyze", "security", "--offline=true", "--no-pager",
                     f"--threshold={EXPOSURE_MAX * 10:.0f}", unit)
    if code == 0:
        return []
    return [f"{unit.name}: over {EXPOSURE_MAX}: {said.splitlines()[-1] if said else code}"]


def installed_as(daemon, source, folder):
    """The units in `folder`, with the built daemon for the installed one."""
    for path in (source / "docker/systemd").iterdir():
        if path.suffix in (".service", ".socket"):
            (folder / path.name).write_text(path.read_text().replace(PROGRAM, str(daemon)))


def read_unit(path):
    """Sections as dicts of lists: a unit may say a thing several times."""
    class Lists(dict):
        def __setitem__(self, key, value):
            if key in self and isinstance(value, list):
                self[key].extend(value)
            else:
                super().__setitem__(key, value)
    parser = configparser.ConfigParser(dict_type=Lists, strict=False, interpolation=None,
                                       delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str
    parser.read_string(path.read_text())
    return {name: {key: value.split("\n") for key, value in parser[name].items()}
            for name in parser.sections()}


def configuration(daemon, *arguments):
    """(exit code, {table.key: value as TOML}); of [[listener]] the first."""
    code, text = run(daemon, *arguments, "--print-config")
    table, keys = "", {}
    for line in text.splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        elif " = " in line:
            key, _, value = line.partition(" = ")
            keys.setdefault(f"{table}.{key}", value.strip('"'))
    return code, keys


def fits_defaults(source, daemon):
    """Where the units and the defaults of the configuration disagree."""
    service = read_unit(source / "docker/systemd/pulsewheeld.service")["Service"]
    socket = read_unit(source / "docker/systemd/pulsewheeld.socket")["Socket"]
    code, keys = configuration(daemon)
    pairs = [
        ("--print-config", code, 0),
        ("StateDirectory=", f"/var/lib/{service['StateDirectory'][0]}", keys["server.state_dir"]),
        ("ListenStream=", socket["ListenStream"][0], keys["listener.port"]),
        ("Backlog=", socket["Backlog"][0], keys["server.tcp_backlog"]),
        ("ExecReload= checks what ExecStart= starts", service["ExecReload"][0],
         f"{service['ExecStart'][0]} --check-config"),
    ]
    return [f"{what}: {found} and {wanted} differ" for what, found, wanted in pairs if found != wanted]


def pages_are_there(source):
    """The manual pages that a unit names."""
    problems = []
    for path in (source / "docker/systemd").glob("pulsewheeld.*"):
        for word in " ".join(read_unit(path)["Unit"]["Documentation"]).split():
            name, _, section = word.removeprefix("man:").rstrip(")").partition("(")
            if not (source / f"config/man/{name}.{section}").exists():
                problems.append(f"{path.name}: there is no page {word}")
    return problems


def makes_user_and_folders(source):
    """What is wrong with what sysusers.conf and tmpfiles.conf make in an empty tree."""
    service = read_unit(source / "docker/systemd/pulsewheeld.service")["Service"]
    user = service["User"][0]
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "etc").mkdir()
        for name, program in (("sysusers", ["systemd-sysusers"]),
                              ("tmpfiles", ["systemd-tmpfiles", "--create"])):
            place = Path(root) / f"usr/lib/{name}.d/pulsewheel.conf"
            place.parent.mkdir(parents=True)
            shutil.copy(source / f"docker/systemd/{name}.conf", place)
            code, said = run(*program, f"--root={root}", place.name)
            if code != 0 or "Failed" in said:
                return [f"{name}.conf: {said or code}"]
        lines = (Path(root) / "etc/passwd").read_text().splitlines()
        entry = next((line.split(":") for line in lines if line.startswith(f"{user}:")), None)
        if entry is None:
            return [f"sysusers.conf makes no user {user}"]
        problems = []
        for base, directory in (("var/lib", "StateDirectory"), ("run", "RuntimeDirectory")):
            folder = Path(root) / base / service[directory][0]
            found = folder.stat()
            mode = f"{stat.S_IMODE(found.st_mode):04o}"
            if mode != service[f"{directory}Mode"][0]:
                problems.append(f"tmpfiles.conf: {folder} has mode {mode}")
            if os.geteuid() == 0 and str(found.st_uid) != entry[2]:
                problems.append(f"tmpfiles.conf: {folder} belongs to user {found.st_uid}")
        return problems


def check(source, daemon):
    with tempfile.TemporaryDirectory() as folder:
        installed_as(daemon, source, Path(folder))
        problems = verify(Path(folder)) + exposure(Path(folder) / "pulsewheeld.service")
    return (problems + fits_defaults(source, daemon) + pages_are_there(source) +
            makes_user_and_folders(source))


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "bad.service"
        unit.write_text("[Service]\nExecStart=/bin/true\nNoNewPrivilege=yes\n")
        assert verify(Path(folder)), "an unknown key passes"
        assert exposure(unit), "a unit without a sandbox passes"
        unit.write_text("[Service]\nExecReload=a\nExecReload=b\n")
        assert read_unit(unit)["Service"]["ExecReload"] == ["a", "b"], read_unit(unit)


def main():
    missing = [name for name in SYSTEMD_PROGRAMS if shutil.which(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} missing (package systemd)")
        return EXIT_SKIPPED
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    problems = check(Path(sys.argv[1]), Path(sys.argv[2]))
    print("\n".join(problems) or "the units are sound")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
