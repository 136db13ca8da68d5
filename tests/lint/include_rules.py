#!/usr/bin/env python3
"""Checks every #include of the project against the table of who may include whom, and that each
header is proven to compile alone: by its own .cc, which includes it first, or else by a target of
the build (headers_alone).

    include_rules.py ROOT         prints each line that breaks a rule, with the rule; exit 1
    include_rules.py --self-test  shows that the rules can fail
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

# Libraries of others, by the first words of their include paths. An include of a library that is
# not listed here is an error: a new dependency is a decision, made in this file.
LIBRARIES = {
    "boost/asio": "asio",
    "boost/asio/ssl": "openssl",
    "boost/beast": "beast",
    "boost": "boost",
    "benchmark": "benchmark",
    "CLI": "cli11",
    "gmock": "gtest",
    "gtest": "gtest",
    "hiredis": "hiredis",
    "nlohmann": "nlohmann",
    "openssl": "openssl",
    "prometheus": "prometheus",
    "spdlog": "spdlog",
    "systemd": "systemd",
    "toml++": "toml++",
}

# Folders of system headers, which have a slash too.
SYSTEM_FOLDERS = {"arpa", "asm", "bits", "linux", "net", "netinet", "sys"}

# Headers that bring threads, clocks or I/O into a folder that is told everything it knows.
IO_HEADERS = {
    "arpa/inet.h", "condition_variable", "ctime", "fcntl.h", "filesystem", "fstream", "future",
    "iostream", "mutex", "netdb.h", "netinet/in.h", "netinet/tcp.h", "poll.h", "shared_mutex",
    "sys/epoll.h", "sys/socket.h", "sys/time.h", "thread", "time.h", "unistd.h",
}


@dataclass(frozen=True)
class Rule:
    """What the files under one path may include, beside that path itself and the standard."""

    ours: tuple[str, ...] = ()  # path prefixes of this project
    libraries: tuple[str, ...] = ()  # values of LIBRARIES, or "*"
    pure: bool = False  # no IO_HEADERS


# By path prefix; the longest one that fits a file is its rule.
RULES = {
    "proto/": Rule(pure=True),
    "config/": Rule(libraries=("toml++",)),
    "daemon/base/": Rule(),
    "daemon/base/asio_src.cc": Rule(libraries=("asio", "beast")),
    "daemon/base/asio_ssl_src.cc": Rule(libraries=("openssl",)),
    "daemon/base/endpoint_text.h": Rule(libraries=("asio",)),
    "daemon/base/log": Rule(ours=("daemon/base/",), libraries=("spdlog",)),
    "daemon/core/": Rule(ours=("daemon/base/",), libraries=("boost",), pure=True),
    "daemon/net/": Rule(
        ours=("proto/", "daemon/base/", "daemon/core/"), libraries=("boost", "asio")
    ),
    "daemon/events/": Rule(ours=("daemon/base/", "daemon/core/"), libraries=("spdlog",)),
    "daemon/redis/": Rule(
        ours=("daemon/base/", "daemon/core/"), libraries=("boost", "asio", "hiredis", "openssl")
    ),
    "daemon/admin/": Rule(
        ours=("daemon/base/",),
        libraries=("boost", "asio", "beast", "nlohmann", "prometheus"),
    ),
    "daemon/server/": Rule(
        ours=(
            "proto/", "config/", "daemon/base/", "daemon/core/", "daemon/net/", "daemon/events/",
            "daemon/redis/", "daemon/admin/",
        ),
        libraries=("boost", "asio", "beast", "nlohmann", "prometheus", "spdlog", "systemd"),
    ),
    "daemon/server/shard_core": Rule(  # decides; what it may not do is left to shard.cc
        ours=(
            "daemon/base/", "daemon/core/", "daemon/net/shard_context.h",
            "daemon/server/input_drain.h", "daemon/server/shard_mail.h",
        ),
        pure=True,
    ),
    "daemon/ctl/": Rule(
        ours=("proto/", "config/", "daemon/base/"),
        libraries=("boost", "asio", "beast", "cli11", "nlohmann"),
    ),
    "daemon/main.cc": Rule(
        ours=("config/", "daemon/base/", "daemon/server/"), libraries=("cli11", "spdlog")
    ),
    "tests/": Rule(ours=("",), libraries=("*",)),
    "tests/client_sim/": Rule(ours=("proto/", "daemon/base/"), libraries=("*",)),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
PRAGMA_ONCE = re.compile(r"^#pragma once$", re.MULTILINE)


def rule_of(path: str) -> tuple[str, Rule] | None:
    """The longest prefix of `path` in RULES with its rule; None when nothing fits."""
    prefixes = [prefix for prefix in RULES if path.startswith(prefix)]
    if not prefixes:
        return None
    prefix = max(prefixes, key=len)
    return prefix, RULES[prefix]


def library_of(target: str) -> str | None:
    """The name in LIBRARIES of an include in angle brackets; None when it is unknown."""
    fits = [start for start in LIBRARIES if target.startswith(start + "/")
            or target.startswith(start + ".")]
    return LIBRARIES[max(fits, key=len)] if fits else None


def broken_rule(path: str, bracket: str, target: str) -> str | None:
    """Why the file at `path` may not include `target`; None when it may."""
    found = rule_of(path)
    if found is None:
        return "no rule for this folder: add one to RULES"
    prefix, rule = found
    if bracket == '"':
        allowed = (prefix, *rule.ours)
        if any(target.startswith(start) for start in allowed):
            return None
        return f"{prefix} may include of ours only: {', '.join(allowed)}"
    if rule.pure and target in IO_HEADERS:
        return f"{prefix} is pure: no threads, clocks or I/O"
    if "/" not in target or target.split("/")[0] in SYSTEM_FOLDERS:
        return None
    library = library_of(target)
    if library is None:
        return "an unknown library: list it in LIBRARIES"
    if "*" in rule.libraries or library in rule.libraries:
        return None
    return f"{prefix} may include of libraries only: {', '.join(rule.libraries) or 'none'}"


def check_text(path: str, text: str) -> list[str]:
    """One message for each line of `text` that breaks a rule."""
    messages = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        reason = broken_rule(path, *match.groups()) if match else None
        if reason:
            messages.append(f"{path}:{number}: {line.strip()}\n    {reason}")
    return messages


def check_header(path: str, text: str, headers: frozenset[str]) -> list[str]:
    """Why a header does not compile twice, or a .cc with one of `headers` does not prove it alone."""
    if path in headers:
        return [] if PRAGMA_ONCE.search(text) else [f"{path}: has no #pragma once"]
    own = path.removesuffix(".cc") + ".h"
    first = INCLUDE.search(text)
    if own not in headers or (first and first.group(2) == own):
        return []
    return [f"{path}: includes {first.group(2) if first else 'nothing'} before its own {own}"]


def sources(root: Path) -> list[Path]:
    """The C++ files of the project, in order."""
    folders = [root / name for name in ("proto", "config", "daemon", "tests")]
    return sorted(p for folder in folders for p in folder.rglob("*") if p.suffix in (".h", ".cc"))


def check_tree(root: Path) -> int:
    """Checks all files under `root`. The exit code."""
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in sources(root)}
    headers = frozenset(path for path in texts if path.endswith(".h"))
    messages = [message for path, text in texts.items()
                for message in check_text(path, text) + check_header(path, text, headers)]
    print("\n".join(messages) or f"{len(texts)} files follow the include rules")
    return 1 if messages or not texts else 0


# (file, line, whether it is allowed): a sample of each kind of rule.
SAMPLES = [
    ("proto/frame.cc", '#include "proto/frame.h"', True),
    ("proto/frame.cc", '#include "daemon/base/time.h"', False),
    ("proto/frame.cc", "#include <sys/socket.h>", False),
    ("config/config.cc", '#include "daemon/base/check.h"', False),
    ("daemon/base/check.cc", '#include "daemon/core/tick.h"', False),
    ("daemon/base/asio_src.cc", "#include <boost/asio/impl/src.hpp>", True),
    ("daemon/base/counters.cc", "#include <boost/asio/post.hpp>", False),
    ("daemon/core/time_wheel.h", '#include "daemon/core/tick.h"', True),
    ("daemon/core/time_wheel.h", "  #  include <boost/asio.hpp>", False),
    ("daemon/core/time_wheel.cc", "#include <thread>", False),
    ("daemon/core/time_wheel.cc", "#include <vector>", True),
    ("daemon/core/edge.cc", '#include "daemon/events/event_log.h"', False),
    ("daemon/net/session.h", "#include <boost/asio/ip/tcp.hpp>", True),
    ("daemon/net/session.h", "#include <boost/beast/http.hpp>", False),
    ("daemon/net/session.h", "#include <netinet/tcp.h>", True),
    ("daemon/events/event_log.cc", '#include "daemon/net/session.h"', False),
    ("daemon/redis/redis_client.cc", "#include <hiredis/hiredis.h>", True),
    ("daemon/redis/redis_client.cc", '#include "daemon/net/session.h"', False),
    ("daemon/net/session.h", "#include <boost/asio/ssl/stream.hpp>", False),
    ("daemon/admin/http_server.cc", '#include "daemon/server/shard.h"', False),
    ("daemon/server/server.cc", '#include "daemon/admin/http_server.h"', True),
    ("daemon/server/server.cc", '#include "tests/support/clock.h"', False),
    ("daemon/main.cc", '#include "daemon/net/session.h"', False),
    ("tests/unit/core/time_wheel_test.cc", '#include "daemon/core/time_wheel.h"', True),
    ("tests/client_sim/client.cc", '#include "tests/client_sim/client.h"', True),
    ("tests/client_sim/client.cc", '#include "proto/frame.h"', True),
    ("tests/client_sim/client.cc", '#include "daemon/core/tick.h"', False),
    ("tests/unit/a_test.cc", "#include <zlib/zlib.h>", False),
    ("elsewhere/a.cc", '#include "proto/frame.h"', False),
    ("daemon/base/a.cc", '// #include "daemon/core/tick.h"', True),
]

# (file, text, whether it is allowed) where the one header is a.h.
HEADER_SAMPLES = [
    ("a.h", "// Purpose.\n\n#pragma once\n", True),
    ("a.h", "// Purpose, and then no #pragma once\n", False),
    ("a.cc", '// Purpose.\n#include "a.h"\n\n#include <vector>\n', True),
    ("a.cc", '#include <vector>\n\n#include "a.h"\n', False),
    ("a.cc", "int a;\n", False),
    ("a_test.cc", '#include <vector>\n#include "a.h"\n', True),
    ("b.cc", "int b;\n", True),
]


def self_test() -> int:
    """Runs SAMPLES and HEADER_SAMPLES. The exit code."""
    judged = [(sample, check_text(*sample[:2])) for sample in SAMPLES]
    judged += [(sample, check_header(*sample[:2], frozenset({"a.h"}))) for sample in HEADER_SAMPLES]
    failures = [sample for sample, messages in judged if (not messages) != sample[2]]
    for path, text, allowed in failures:
        print(f"{path}: {text}: should be {'allowed' if allowed else 'an error'}")
    if not failures:
        print(f"{len(judged)} samples judged right")
    return 1 if failures else 0


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    return self_test() if sys.argv[1] == "--self-test" else check_tree(Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
