#!/usr/bin/env python3
"""Takes the picture of the dashboard that the README shows: picture.py DAEMON SIMULATOR PNG

A daemon on its defaults, 10,000 simulated clients of whom some fall silent, reconnect or log out, and
after a minute and a half what a browser shows of them. Wants chromium, chromedriver and pngquant.
"""

import subprocess
import sys
import time
from pathlib import Path

import webdriver
from webdriver import Browser

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from real_daemon import RealDaemon  # noqa: E402: found by the line above

CONNECTIONS = 10_000
RAMP_S = 28  # nearly a lap: deadlines in all slots
RUN_S = 75
SIZE = (1280, 1180)
COLOURS = 128
BYTES_MAX = 200_000


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    daemon_program, simulator, picture = sys.argv[1:]
    if webdriver.find_chromium() is None:
        sys.exit("picture.py: chromium or chromedriver is missing")
    with RealDaemon(daemon_program) as daemon:
        load = subprocess.Popen(
            [simulator, "--target", f"127.0.0.1:{daemon.port}", "--connections", str(CONNECTIONS),
             "--ramp", str(CONNECTIONS // RAMP_S), "--duration", f"{RUN_S + 30}s",
             "--churn-percent", "12", "--silent-percent", "8"], stdout=subprocess.DEVNULL)
        try:
            with Browser(*SIZE) as browser:
                browser.emulate(*SIZE, prefers_color_scheme="dark")
                browser.open(daemon.url)
                time.sleep(RAMP_S + RUN_S - 5)
                browser.run("""
                    Array.from(document.querySelectorAll('#edges tr'))
                      .find((row) => row.querySelector('.online')).querySelector('.uid').click();
                    document.activeElement.blur();
                """)
                time.sleep(5)
                png = browser.screenshot()
        finally:
            load.kill()
            load.wait()
    small = subprocess.run(["pngquant", str(COLOURS), "-"], input=png, stdout=subprocess.PIPE,
                           check=True).stdout
    if len(small) > BYTES_MAX:
        sys.exit(f"picture.py: {len(small)} bytes are more than {BYTES_MAX}")
    Path(picture).write_bytes(small)
    print(f"{picture}: {len(small)} bytes")


if __name__ == "__main__":
    main()
