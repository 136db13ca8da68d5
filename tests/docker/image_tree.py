"""The stages of a Dockerfile as folders, made by debootstrap and chroot: what Docker would put into
images, without Docker. Wants root and a mount namespace of its own (see image_trial.py)."""

import ctypes
import fcntl
import glob
import os
import shlex
import shutil
import socket
import struct
import subprocess
from pathlib import Path

import dockerfile

# Which Debian the official images are of; slim ones leave out manuals, which nothing here reads.
IMAGES = {"debian:12-slim": "bookworm"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEVICES = ("null", "zero", "full", "random", "urandom")
DEBOOTSTRAP_SECONDS_MAX = 900
RUN_SECONDS_MAX = 3600

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


class TrialError(Exception):
    """Something in docker/ does not do what it should."""


def run(*command, **options):
    """Runs it to its end; its output is part of the exception when it fails."""
    options = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT,
               "stdin": subprocess.DEVNULL, "timeout": RUN_SECONDS_MAX} | options
    done = subprocess.run([str(word) for word in command], check=False, **options)
    if done.returncode != 0:
        raise TrialError(f"{shlex.join(map(str, command))}: exit code {done.returncode}\n"
                         f"{done.stdout or ''}")
    return done.stdout


def mount_system(root):
    """/proc and a minimal /dev, as a container has them."""
    run("mount", "-t", "proc", "proc", root / "proc")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", root / "dev")
    for name in DEVICES:
        (root / "dev" / name).touch()
        run("mount", "--bind", f"/dev/{name}", root / "dev" / name)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"),
                         ("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")):
        (root / "dev" / name).symlink_to(target)


def private_network():
    """Leaves the machine's network for one with nothing but a loopback."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise TrialError(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def inside(root, command, *, user="0:0", env=None, cwd="/", confined=False):
    """The command line that runs `command` in the tree. `confined`: without any capability and no
    way to get one, as cap_drop and no-new-privileges have it."""
    uid, gid = user.split(":")
    drop = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"] if confined else []
    variables = {"PATH": PATH, "HOME": "/root" if uid == "0" else "/"} | (env or {})
    return ["chroot", str(root), "setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups",
            *drop, "env", "-i", "-C", cwd, *(f"{key}={value}" for key, value in variables.items()),
            *command]


class Builder:
    """Builds stages below `work`; those that stand there already are taken as they are."""

    def __init__(self, source, work, say):
        self._source, self._work, self._say = Path(source), Path(work), say
        self._stages = dockerfile.parse((self._source / "docker/Dockerfile").read_text())
        self._ignore = dockerfile.DockerIgnore((self._source / ".dockerignore").read_text())

    @property
    def stages(self):
        return self._stages

    def stage(self, name):
        """The tree of a stage, built now unless it is there."""
        return self._once(name, lambda root: self._build(name, root))

    def debian_with(self, name, packages):
        """A tree of Debian's own packages, for an image that is not ours."""
        def build(root):
            self._copy_tree(self._debian("bookworm"), root)
            mount_system(root)
            run(*inside(root, ["apt-get", "update"]))
            run(*inside(root, ["apt-get", "install", "-y", "--no-install-recommends", *packages],
                        env={"DEBIAN_FRONTEND": "noninteractive"}))
        return self._once(name, build)

    def _once(self, name, build):
        root, done = self._work / name, self._work / f"{name}.done"
        if not done.exists():
            shutil.rmtree(root, ignore_errors=True)
            self._say(f"building {name}")
            build(root)
            done.touch()
        return root

    def _debian(self, suite):
        def build(root):
            run("debootstrap", "--variant=minbase", suite, root, timeout=DEBOOTSTRAP_SECONDS_MAX)
            # The way to the archive, which is this machine's.
            (root / "etc/apt/apt.conf.d/99host").write_text(_archive_settings())
            for name in ("resolv.conf", "hosts"):
                shutil.copy(f"/etc/{name}", root / "etc" / name)
        return self._once(suite, build)

    @staticmethod
    def _copy_tree(source, root):
        run("cp", "-a", "-x", "--reflink=auto", source, root)

    def _build(self, name, root):
        stage = dockerfile.chain(self._stages, name)[-1]
        if stage.base in IMAGES:
            base, below = self._debian(IMAGES[stage.base]), dockerfile.Settings()
        else:
            base, below = self.stage(stage.base), dockerfile.settings(self._stages, stage.base)
        self._copy_tree(base, root)
        mount_system(root)
        user, env, cwd = below.user, dict(below.env), "/"
        for step in stage.instructions:
            match step.name:
                case "WORKDIR":
                    cwd = os.path.join(cwd, step.text)
                    (root / cwd[1:]).mkdir(parents=True, exist_ok=True)
                case "USER":
                    user = step.text
                case "ARG" | "ENV":
                    env.update(step.pairs())
                case "COPY":
                    self._copy(step, root, cwd)
                case "RUN":
                    self._say(f"{name}: {step.text}")
                    run(*inside(root, step.command(), user=user, env=env, cwd=cwd))

    def _copy(self, step, root, cwd):
        *sources, target = step.words()
        if set(step.flags) - {"from"}:
            raise TrialError(f"line {step.line}: COPY with {', '.join(step.flags)} is not tried here")
        to_folder = target.endswith("/") or len(sources) > 1 or target == "."
        place = root / os.path.join(cwd, target).lstrip("/")
        if "from" in step.flags:
            origin = self.stage(step.flags["from"])
            files = [Path(path) for source in sources for path in glob.glob(f"{origin}{source}")]
            pairs = [(path, place / path.name if to_folder else place) for path in files]
        else:
            pairs = self._from_context(step, sources, place, to_folder)
        if not pairs:
            raise TrialError(f"line {step.line}: COPY finds nothing of {' '.join(sources)}")
        for path, copy in pairs:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)

    def _from_context(self, step, sources, place, to_folder):
        sent = dockerfile.context_files(self._source, self._ignore)
        pairs = []
        for source in map(os.path.normpath, sources):
            if source in sent:
                pairs.append((self._source / source, place / os.path.basename(source)
                              if to_folder else place))
                continue
            found = [path for path in sent if source == "." or path.startswith(source + "/")]
            if not found:
                raise TrialError(f"line {step.line}: COPY: {source} is not in the context")
            pairs += [(self._source / path, place / os.path.relpath(path, source)) for path in found]
        return pairs


def _archive_settings():
    """This machine's apt settings about proxies and about dates of the archive."""
    wanted = ("Acquire::Check-", "Acquire::http", "Acquire::https", "Acquire::Retries")
    lines = run("apt-config", "dump").splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith(wanted))
