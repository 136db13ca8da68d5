"""Reads a Dockerfile and a .dockerignore: as much of their language as docker/ uses.

What is not understood is an error, so that nothing is skipped in silence.
"""

import fnmatch
import json
import os
import re
import shlex
from dataclasses import dataclass, field

# Change the tree, or where and as whom the steps behind them run.
STEPS = {"RUN", "COPY", "WORKDIR", "USER", "ENV", "ARG"}
# Say how a container runs.
SETTINGS = {"ENTRYPOINT", "CMD", "EXPOSE", "HEALTHCHECK", "LABEL", "STOPSIGNAL", "VOLUME"}


class DockerfileError(Exception):
    """Names the line and what is wrong with it."""


@dataclass
class Instruction:
    line: int
    name: str
    flags: dict  # {"from": "build"} for --from=build
    text: str  # what stands behind the flags

    def words(self):
        """The exec form's strings, or the words of the shell form."""
        return self.exec_form() or shlex.split(self.text)

    def exec_form(self):
        """The strings of ["a", "b"]; None when the text is no such list."""
        if not self.text.startswith("["):
            return None
        try:
            words = json.loads(self.text)
        except ValueError as error:
            raise DockerfileError(f"line {self.line}: {self.name}: no JSON: {error}") from error
        if not words or not all(isinstance(word, str) for word in words):
            raise DockerfileError(f"line {self.line}: {self.name}: wants a list of strings")
        return words

    def command(self):
        """What the kernel is asked to run."""
        return self.exec_form() or ["/bin/sh", "-c", self.text]

    def pairs(self):
        """KEY=VALUE words as a dict; a KEY alone, as in ARG, has the value ""."""
        return {key: value for key, _, value in
                (word.partition("=") for word in shlex.split(self.text))}


@dataclass
class Stage:
    name: str
    base: str  # an image, or an earlier stage
    instructions: list = field(default_factory=list)


def _logical_lines(text):
    """(number, line) with continuations joined; without comments and empty lines."""
    start, joined = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or not line.strip():
            continue
        start = start if joined else number
        if line.endswith("\\"):
            joined += line[:-1].strip() + " "
            continue
        yield start, joined + line.strip()
        joined = ""
    if joined:
        raise DockerfileError(f"line {start}: the file ends in the middle of an instruction")


def _instruction(number, line):
    name, _, text = line.partition(" ")
    text, flags = text.strip(), {}
    while match := re.match(r"--([a-z-]+)=(\S+)\s+", text):
        flags[match[1]] = match[2]
        text = text[match.end():]
    if name not in STEPS | SETTINGS | {"FROM"}:
        raise DockerfileError(f"line {number}: unknown instruction {name}")
    if "<<" in text and name in ("RUN", "COPY"):
        raise DockerfileError(f"line {number}: here-documents are not understood")
    return Instruction(number, name, flags, text)


def parse(text):
    """The stages, in their order."""
    stages = []
    for number, line in _logical_lines(text):
        instruction = _instruction(number, line)
        if instruction.name != "FROM":
            if not stages:
                raise DockerfileError(f"line {number}: {instruction.name} before FROM")
            stages[-1].instructions.append(instruction)
            continue
        match = re.fullmatch(r"(\S+)(?: AS (\S+))?", instruction.text)
        if not match:
            raise DockerfileError(f"line {number}: FROM wants IMAGE [AS NAME]")
        stages.append(Stage(match[2] or str(len(stages)), match[1]))
    return stages


def chain(stages, name):
    """The stages that `name` is made of, the lowest first; below that is the image [0].base."""
    by_name = {stage.name: stage for stage in stages}
    if name not in by_name:
        raise DockerfileError(f"no stage {name}: one of {', '.join(by_name)}")
    found = [by_name[name]]
    while found[0].base in by_name:
        found.insert(0, by_name[found[0].base])
    return found


@dataclass
class Settings:
    """How a container of a stage runs."""
    user: str = "0:0"
    entrypoint: list = field(default_factory=list)
    cmd: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    labels: dict = field(default_factory=dict)
    ports: list = field(default_factory=list)
    volumes: list = field(default_factory=list)
    stop_signal: str = "SIGTERM"
    healthcheck: list = field(default_factory=list)  # a command; empty: none


def settings(stages, name):
    """Those of stage `name`, with what it has from the stages below it."""
    result = Settings()
    for stage in chain(stages, name):
        for instruction in stage.instructions:
            _apply(instruction, result)
    return result


def _apply(instruction, result):
    match instruction.name:
        case "USER":
            result.user = instruction.text
        case "ENTRYPOINT":
            result.entrypoint, result.cmd = instruction.command(), []
        case "CMD":
            result.cmd = instruction.command()
        case "ENV":
            result.env.update(instruction.pairs())
        case "LABEL":
            result.labels.update(instruction.pairs())
        case "EXPOSE":
            result.ports += instruction.words()
        case "VOLUME":
            result.volumes += instruction.words()
        case "STOPSIGNAL":
            result.stop_signal = instruction.text
        case "HEALTHCHECK":
            kind, _, command = instruction.text.partition(" ")
            if kind != "CMD":
                raise DockerfileError(f"line {instruction.line}: HEALTHCHECK wants CMD")
            result.healthcheck = Instruction(instruction.line, kind, {}, command.strip()).command()


class DockerIgnore:
    """The patterns of a .dockerignore; the last one that matches decides."""

    def __init__(self, text):
        lines = (line.strip() for line in text.splitlines())
        self._patterns = [line for line in lines if line and not line.startswith("#")]

    def lets_in(self, path):
        """Whether `path`, relative to the context, is sent to the build."""
        sent = True
        for pattern in self._patterns:
            if self._covers(pattern.lstrip("!").strip("/"), path):
                sent = pattern.startswith("!")
        return sent

    @staticmethod
    def _covers(pattern, path):
        """A pattern covers what it names and all below that; **/ stands for any folders or none."""
        parts = path.split("/")
        if pattern.startswith("**/"):
            return any(fnmatch.fnmatchcase(part, pattern[3:]) for part in parts)
        wanted = pattern.split("/")
        return len(parts) >= len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def context_files(root, ignore):
    """The files below `root` that the build sees, as paths relative to it."""
    found = []
    for folder, folders, files in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name not in (".git", "build")]  # large, and out
        found += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return sorted(path for path in found if ignore.lets_in(path))
