"""What the trials of docker/ share: how they report and check, and the namespaces that they run in."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dockerfile import DockerfileError
from image_tree import TrialError

EVENT_SECONDS_MAX = 60


class Trial:
    """A trial whose lines begin with its name."""

    def __init__(self, name):
        self._name = name

    def say(self, text):
        print(f"{self._name}: {text}", flush=True)

    def check(self, claim, holds, otherwise=""):
        """Reports that a claim holds, or ends the trial."""
        if not holds:
            raise TrialError(f"not so: {claim}\n{otherwise}")
        self.say(f"ok: {claim}")

    def check_soon(self, claim, holds):
        """The same for what somebody else is about to do."""
        begin = time.monotonic()
        while not holds():
            if time.monotonic() - begin > EVENT_SECONDS_MAX:
                raise TrialError(f"not so, after {EVENT_SECONDS_MAX} s: {claim}")
            time.sleep(0.1)
        self.say(f"ok: {claim}")

    def main(self, description, trial, inputs):
        """Runs `trial(*inputs, work)` by the command line, and returns the exit code. `inputs` are
        the names of the files and folders that the command line has to have; `work` is its --work,
        or a folder that is gone afterwards."""
        arguments = _parse(description, inputs)
        files = [getattr(arguments, name).resolve() for name in inputs]
        if arguments.in_namespace:
            try:
                trial(*files, arguments.work)
            except (TrialError, DockerfileError, subprocess.TimeoutExpired) as error:
                print(f"{self._name}: {error}", file=sys.stderr)
                return 1
            return 0
        if os.geteuid() != 0:
            print(f"{self._name}: wants root, for chroot, mounts and namespaces", file=sys.stderr)
            return 69
        if arguments.work:
            work = arguments.work.resolve()
            work.mkdir(parents=True, exist_ok=True)
            return _in_namespace(files, work)
        prefix = f"pulsewheel-{self._name}-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir="/var/tmp") as work:
            return _in_namespace(files, work)


def _parse(description, inputs):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in inputs:
        parser.add_argument(name, type=Path, metavar=name.upper())
    parser.add_argument("--work", type=Path, metavar="FOLDER")
    parser.add_argument("--in-namespace", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _in_namespace(files, work):
    """This script again, in mount and pid namespaces that take all mounts and processes with them."""
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
               sys.executable, "-B", sys.argv[0], *map(str, files), "--work", str(work),
               "--in-namespace"]
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode
