"""A tree with Debian in it as a running machine: its own systemd as process 1 of namespaces of its own.
Wants root, and a mount namespace of its own (see package_trial.py)."""

import subprocess
import tempfile
import time
from pathlib import Path

from image_tree import DEVICES, PATH, TrialError, run

BOOT_SECONDS_MAX = 60
COMMAND_SECONDS_MAX = 120
END_SECONDS_MAX = 30

# systemd wants its own /proc, /run, /dev and control groups, and a root that is no chroot: from within
# one no user namespace can be made, as units with PrivateUsers= want it.
BOOT = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for device in $2; do touch "dev/$device"; mount --bind "/dev/$device" "dev/$device"; done
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mkdir run/before
pivot_root . run/before
cd /
umount -l run/before
exec env -i PATH="$3" container=lxc /lib/systemd/systemd
"""


class Machine:
    """Boots on entry, and ends without a word on exit. Its network has nothing but a loopback."""

    def __init__(self, root, work):
        self._root, self._work = root, work
        self._cgroup = None
        self._process = None

    def __enter__(self):
        mount = self._work / "cgroup"
        mount.mkdir(exist_ok=True)
        run("mount", "-t", "cgroup2", "cgroup2", mount)
        self._cgroup = Path(tempfile.mkdtemp(prefix="pulsewheel-trial-", dir=mount))
        spaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup"]
        self._process = subprocess.Popen(
            ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self._cgroup),
             "unshare", *spaces, "--fork", "--kill-child", "sh", "-c", BOOT, "boot",
             str(self._root), " ".join((*DEVICES, "tty")), PATH],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            self._wait_until_up()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, value, traceback):
        self._process.kill()  # and with it process 1 of the machine, and with that all the others
        self._process.wait()
        begin = time.monotonic()
        while "populated 1" in (self._cgroup / "cgroup.events").read_text():
            if time.monotonic() - begin > END_SECONDS_MAX:
                raise TrialError(f"processes of the machine do not end: {self._cgroup}")
            time.sleep(0.05)
        run("find", self._cgroup, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";")

    def _first_process(self):
        """The machine's process 1, by its number here; 0 until it is there."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return int((children.read_text().split() or ["0"])[0])

    def _wait_until_up(self):
        begin = time.monotonic()
        state = ""
        while state not in ("running", "degraded"):
            if self._process.poll() is not None or time.monotonic() - begin > BOOT_SECONDS_MAX:
                self._process.kill()
                raise TrialError(f"systemd does not come up ({state}): {self._process.stdout.read()}")
            time.sleep(0.1)
            state = self.ask("systemctl", "is-system-running")[1].strip() if self._first_process() else ""

    def ask(self, *command):
        """(exit code, output) of a command in the machine."""
        enter = ["nsenter", "-t", str(self._first_process()), "-m", "-p", "-n", "-u", "-i", "-C", "-r",
                 "-w", "env", "-i", f"PATH={PATH}", "DEBIAN_FRONTEND=noninteractive", "HOME=/root"]
        done = subprocess.run([*enter, *map(str, command)], stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                              timeout=COMMAND_SECONDS_MAX)
        return done.returncode, done.stdout

    def run(self, *command):
        """The output of a command in the machine, which has to end well."""
        code, output = self.ask(*command)
        if code != 0:
            raise TrialError(f"{' '.join(map(str, command))}: exit code {code}\n{output}\n"
                             f"{self.ask('journalctl', '-n', '40', '--no-pager')[1]}")
        return output
