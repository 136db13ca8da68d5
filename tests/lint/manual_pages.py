#!/usr/bin/env python3
"""manual_pages.py PAGES PROGRAM...: the pages in the folder PAGES are sound, and name just the options
and commands that the PROGRAMs' own --help does.

    manual_pages.py --self-test   shows that the comparison can fail

What man (groff) and mandoc say about a page counts where they are installed (packages man-db and
mandoc, groff-base); where they are not, that part is left out, with a word."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HELP_SECONDS_MAX = 20


def unescaped(text):
    """troff's text without what it makes of hyphens and fonts."""
    return re.sub(r"\\f.", "", text.replace("\\-", "-").replace('"', ""))


def long_options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def options_of_page(page):
    """The options that head a paragraph."""
    return long_options(" ".join(heads(page)))


def commands_of_page(page):
    """The first words of those heads of the section COMMANDS that name one."""
    section = page.partition(".SH COMMANDS\n")[2].partition(".SH ")[0]
    words = (head.split()[0] for head in heads(section))
    return {word for word in words if not word.startswith("-")}


def heads(page):
    lines = page.splitlines()
    return [unescaped(re.sub(r"^\.\w+ ", "", lines[i + 1]))
            for i, line in enumerate(lines[:-1]) if line == ".TP"]


def help_of(program, *command):
    done = subprocess.run([program, *command, "--help"], stdout=subprocess.PIPE, check=True,
                          stdin=subprocess.DEVNULL, text=True, timeout=HELP_SECONDS_MAX)
    return done.stdout


def options_of_help(text):
    return {match.group(1) for match in re.finditer(r"(?m)^  (?:-\w,)?(--[a-z-]+)", text)}


def commands_of_help(text):
    section = re.search(r"(?ms)^Subcommands:\n(.*?)(?:\n\n|\Z)", text)
    return set(re.findall(r"(?m)^  ([a-z][a-z-]*) ", section.group(1))) if section else set()


def differences(kind, in_help, in_page):
    """One line for each word that only one of them has."""
    return ([f"{kind} {word} is in --help only" for word in sorted(in_help - in_page)] +
            [f"{kind} {word} is in the page only" for word in sorted(in_page - in_help)])


def compare(page, program):
    text = help_of(program)
    commands = commands_of_help(text)
    options = options_of_help(text)
    for command in commands:
        options |= options_of_help(help_of(program, command))
    if len(options) < 4:
        return [f"{program} --help lists only {sorted(options)}"]
    return (differences("the option", options, options_of_page(page)) +
            differences("the command", commands, commands_of_page(page)))


def formatters(path):
    """What the programs that show such pages say about one; and those that are not there."""
    checks = {"mandoc": ["mandoc", "-Tlint", "-Wwarning", path],
              "man": ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path]}
    problems, missing = [], []
    for name, command in checks.items():
        if shutil.which(name) is None or (name == "man" and shutil.which("groff") is None):
            missing.append(name)
            continue
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              text=True, timeout=HELP_SECONDS_MAX, stdin=subprocess.DEVNULL,
                              env=os.environ | {"LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
        said = done.stderr + (done.stdout if name == "mandoc" else "")
        if done.returncode != 0 or said:
            problems.append(f"{name}: {said.strip() or f'exit code {done.returncode}'}")
    return problems, missing


def self_test():
    page = ".SH COMMANDS\n.TP\n.BR status \" [\" \\-\\-live ]\ntext\n.SH NEXT\n.TP\n.B \\-\\-json\ntext\n"
    assert options_of_page(page) == {"--live", "--json"}, options_of_page(page)
    assert commands_of_page(page) == {"status"}, commands_of_page(page)
    text = "Options:\n  -h,--help  Print\n  --url URL=x --no\n\nSubcommands:\n  kick   Make\n\nEnd\n"
    assert options_of_help(text) == {"--help", "--url"}, options_of_help(text)
    assert commands_of_help(text) == {"kick"}, commands_of_help(text)
    assert len(differences("the option", {"--a", "--b"}, {"--b", "--c"})) == 2


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    pages, *programs = map(Path, sys.argv[1:])
    problems, missing, count = [], set(), 0
    for path in sorted(pages.iterdir()):
        said, not_there = formatters(path)
        missing |= set(not_there)
        problems += [f"{path.name}: {line}" for line in said]
        count += 1
    for program in programs:
        found = list(pages.glob(f"{program.name}.[18]"))
        if len(found) != 1:
            problems.append(f"{program.name} has {len(found)} pages in {pages}")
            continue
        problems += [f"{found[0].name}: {line}" for line in compare(found[0].read_text(), program)]
    print("\n".join(problems) or f"{count} pages are sound")
    if missing:
        print(f"not asked, for they are not installed: {', '.join(sorted(missing))}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
