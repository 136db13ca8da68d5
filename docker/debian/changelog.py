#!/usr/bin/env python3
"""changelog.py README VERSION MAINTAINER: the Changes of README as a Debian changelog, for the package.

Entries of "Next" belong to VERSION. The date is SOURCE_DATE_EPOCH's, which makes two builds of one
source the same."""

import os
import re
import sys
import textwrap
import time
from email.utils import formatdate
from pathlib import Path

PACKAGE = "pulsewheel"
LINE_WIDTH = 78


def entries(readme, version):
    """{version: [text]}, newest first."""
    section = readme.partition("\n## Changes\n")[2].partition("\n## ")[0]
    found = {}
    for item in re.split(r"\n- ", "\n" + section.strip())[1:]:
        release, _, text = " ".join(item.split()).partition(": ")
        found.setdefault(version if release == "Next" else release, []).append(plain(text))
    return found


def plain(text):
    """Without what Markdown adds to it."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("**", "")


def changelog(readme, version, maintainer, date):
    found = entries(readme, version)
    if version not in found:
        raise SystemExit(f"README's Changes say nothing of {version}")
    blocks = []
    for release, texts in found.items():
        lines = [textwrap.fill(text[0].upper() + text[1:], LINE_WIDTH, initial_indent="  * ",
                               subsequent_indent="    ", break_on_hyphens=False) for text in texts]
        blocks.append(f"{PACKAGE} ({release}) unstable; urgency=medium\n\n" + "\n".join(lines) +
                      f"\n\n -- {maintainer}  {date}\n")
    return "\n".join(blocks)


def main():
    readme, version, maintainer = sys.argv[1:]
    date = formatdate(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    sys.stdout.write(changelog(Path(readme).read_text(encoding="utf-8"), version, maintainer, date))


if __name__ == "__main__":
    main()
