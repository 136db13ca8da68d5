#!/usr/bin/env python3
"""The dashboard in a real browser: what people see of it, with a stand-in for the daemon that can
do what a daemon rarely does. With --daemon, the real one is behind it as well.

    dashboard_test.py [--daemon PULSEWHEELD] [NAME...]

Exits with 77 (skipped) where there is no Chromium.
"""

import re
import sys
import tempfile
import time
import unittest
from pathlib import Path

import webdriver
from stub_daemon import StubDaemon, somebody
from webdriver import ENTER, SHIFT, TAB, Browser

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from real_daemon import Client, RealDaemon  # noqa: E402: found by the line above

EXIT_SKIPPED = 77
PHONE_WIDTH = 320  # the narrowest that the web asks for (WCAG 1.4.10)
CONTRAST_MIN = 4.5
TOKEN = "secret-token-of-a-test"

EVIL = {  # what it is: the bytes, and how the page shows them
    "html": (b"<img src=x onerror=window.hit=1>", "<img%20src=x%20onerror=window.hit=1>"),
    "quotes": (b"\"'`&<>\"onclick=", "\"'`&<>\"onclick="),
    "script": (b"</script><script>window.hit=1</script>", "</script><script>window.hit=1</script>"),
    "right to left": ("\u202egpj.exe\u2066".encode(), "%E2%80%AEgpj.exe%E2%81%A6"),
    "hebrew": ("שלום".encode(), "שלום"),
    "no utf-8": (b"\xff\xc3(\xed\xa0\x80", "%FF%C3(%ED%A0%80"),
    "nul": (b"a\0b\r\n", "a%00b%0D%0A"),
    "percent": (b"100%41", "100%2541"),
    "path": (b"../..?a=b#c:kick", "../..?a=b#c:kick"),
}

# The contrast of each visible text against the nearest ground that is opaque: the ones that fail.
POOR_CONTRAST = """
const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
const rgba = (colour) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data;
};
const luminance = (colour) => {
  const [r, g, b] = Array.from(rgba(colour)).slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (rgba(colour)[3] === 255) return colour;
  }
  return 'white';
};
const poor = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !element.checkVisibility() ||
      element.closest('svg, .hidden, .skip, noscript')) continue;
  const [a, b] = [luminance(getComputedStyle(element).color), luminance(ground(element))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < arguments[0]) poor.push(`${contrast.toFixed(2)}: ${walker.currentNode.textContent}`);
}
return poor;
"""


class Page(unittest.TestCase):
    """A browser for all tests of the class, and a stand-in of its own for each."""

    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.daemon = StubDaemon()
        self.addCleanup(self.daemon.close)
        self.browser.emulate(1280, 900)

    def tearDown(self):
        # Leave the daemon's page, so that it does not notice the daemon's end.
        self.browser.open("about:blank")
        self.browser.errors()

    def open(self, fragment=""):
        self.browser.open(f"{self.daemon.url}/{fragment}")
        self.browser.wait_for_text("#phase", "serving")
        self.browser.wait_for_text("#edges-mode", "live")

    def look_up(self, typed):
        self.browser.fill("#lookup-uid", typed)
        self.browser.press(ENTER)


class OverviewTest(Page):
    def test_shows_the_node_and_its_users(self):
        self.daemon.users = 9_876
        self.open()
        self.browser.wait_for_text("#hub-online", "9,876")
        self.browser.wait_for_text(".tile .value", "9,876")
        self.assertEqual(self.browser.text("#epoch"), "3")

    def test_logs_no_error_and_breaks_no_policy(self):
        self.daemon.edge(b"alice")
        self.open("#user=alice")
        self.browser.wait_for_text("#lookup-answer", "nothing is known")
        time.sleep(2.5)  # a round of everything that repeats
        self.assertEqual(self.browser.errors(), [])

    def test_draws_rates_and_quantiles_after_the_second_look(self):
        self.open()
        self.browser.wait_for("""
            return Array.from(document.querySelectorAll('.tile .value')).every((v) => /\\d/.test(v.innerText));
        """, what="a number in each tile")

    def test_says_when_the_daemon_does_not_answer_and_when_it_is_back(self):
        self.open()
        self.daemon.answers = False
        self.browser.wait_for_text("#trouble", "No answer from the daemon")
        self.assertIn("All below is from", self.browser.text("#trouble"))
        self.daemon.answers = True
        self.browser.wait_for("return document.getElementById('trouble').hidden;")
        self.browser.wait_for_text("#edges-mode", "live")

    def test_pause_stops_the_wheel_the_list_and_the_looks(self):
        self.open()
        self.browser.click("#pause")
        self.assertEqual(self.browser.text("#edges-mode"), "paused")
        # The bars come to rest.
        self.browser.wait_for("return document.getAnimations().length === 0;")
        self.daemon.edge(b"while-paused")
        self.daemon.users = 1
        time.sleep(2.5)
        self.assertNotIn("while-paused", self.browser.text("#edges"))
        self.assertNotEqual(self.browser.text("#hub-online"), "1")
        self.browser.click("#pause")
        self.browser.wait_for_text("#edges", "while-paused")
        self.browser.wait_for_text("#hub-online", "1")


class WheelTest(Page):
    HEIGHTS = """
        return Array.from(document.querySelectorAll('.bar')).map((b) => parseFloat(b.style.height));
    """

    def test_is_as_high_in_each_slot_as_it_is_full(self):
        self.daemon.slots = [100] * 15 + [50] * 15
        self.open()
        self.browser.wait_for(f"return (() => {{ {self.HEIGHTS} }})().some((h) => h > 0);")
        heights = self.browser.run(self.HEIGHTS)
        full, half = max(heights[:15]), max(heights[15:])
        self.assertAlmostEqual(half / full, 0.5, places=2)
        self.assertEqual(len(heights), 30)

    def test_turns_with_the_ticks_of_the_daemon(self):
        self.open()
        turning = """
            const [animation] = document.getElementById('wheel-disc').getAnimations();
            return animation && animation.playState === 'running' &&
                   animation.effect.getComputedTiming().duration;
        """
        self.assertEqual(self.browser.wait_for(turning, what="a wheel that turns"), 30_000)

    def test_steps_where_motion_is_not_wanted(self):
        self.browser.emulate(1280, 900, prefers_reduced_motion="reduce")
        self.open()
        angle = "return document.getElementById('wheel-disc').style.transform;"
        before = self.browser.wait_for(angle)
        self.browser.wait_for(f"return (() => {{ {angle} }})() !== arguments[0];", before)
        self.assertEqual(self.browser.run("return document.getAnimations().length;"), 0)

    def test_says_the_same_in_numbers(self):
        self.daemon.slots = [7] * 30
        self.open()
        self.browser.click("#wheel-numbers summary")
        self.browser.wait_for_text("#wheel-numbers tbody", "7")
        self.browser.wait_for_text("#wheel-text", "203 deadlines in 30 slots of 1 s")

    def test_marks_where_the_deadline_of_a_user_waits(self):
        self.daemon.explanations["alice"] = somebody("alice")
        self.open("#user=alice")
        self.browser.wait_for("return document.querySelector('.mark').style.display !== 'none';")

    def test_shows_each_level(self):
        self.open()
        self.browser.wait_for_text("#wheel-levels", "30 × 15 min")
        self.browser.click("#wheel-levels label:nth-of-type(2) input")
        self.browser.wait_for_text("#wheel-text", "0 deadlines in 30 slots of 30 s")


class LookupTest(Page):
    def test_explains_a_user(self):
        self.daemon.explanations["alice"] = somebody("alice")
        self.open()
        self.look_up("alice")
        self.browser.wait_for_text("#lookup-answer", "online: 1 session, last packet 4.0 s ago")
        answer = self.browser.text("#lookup-answer")
        for part in ("192.0.2.7:40123", "4503599627370498", "26 s of 30 s", "level 0", "login"):
            self.assertIn(part, answer)

    def test_follows_the_user_and_says_a_change_aloud(self):
        self.open("#user=alice")
        self.browser.wait_for_text("#lookup-answer", "nothing is known")
        self.daemon.explanations["alice"] = somebody("alice")
        self.browser.wait_for_text("#lookup-answer", "online: 1 session")
        said = self.browser.run("return document.getElementById('lookup-said').textContent;")
        self.assertEqual(said, "online: 1 session, last packet 4.0 s ago")

    def test_is_opened_by_the_user_of_an_edge(self):
        self.daemon.edge(EVIL["html"][0])
        self.open()
        self.browser.wait_for_text("#edges", "onerror")
        self.browser.click("#edges .uid")
        self.browser.wait_for_text("#lookup-answer .who", EVIL["html"][1])

    def test_takes_each_uid_as_it_is_shown(self):
        for name, (uid, shown) in EVIL.items():
            with self.subTest(name):
                encoded = "".join(c if re.match(r"[A-Za-z0-9._~-]", c) else f"%{ord(c):02X}"
                                  for c in uid.decode("latin-1"))
                self.daemon.explanations[encoded] = somebody(encoded)
                self.open()
                self.browser.run("document.getElementById('lookup-uid').value = arguments[0];", shown)
                self.browser.click("#lookup button")
                self.browser.wait_for_text("#lookup-answer", "online: 1 session")
                self.assertEqual(self.browser.run("return location.hash;"), f"#user={encoded}")

    def test_says_that_a_user_is_held(self):
        held = somebody("alice")
        held["hold"] = {"since_ms": held["now_ms"], "until_ms": held["now_ms"] + 3_600_000}
        self.daemon.explanations["alice"] = held
        self.open("#user=alice")
        self.browser.wait_for_text("#lookup-answer", "no deadline runs until")

    def test_refuses_a_percent_that_means_nothing(self):
        self.open()
        self.look_up("100%")
        self.browser.wait_for_text("#lookup-error", "a % itself is written %25")


class EdgesTest(Page):
    def test_come_while_one_looks(self):
        self.daemon.edge(b"before")
        self.open()
        self.browser.wait_for_text("#edges", "before")
        self.daemon.edge(b"bob", "offline", "timeout")
        self.browser.wait_for_text("#edges tr:first-child", "bob")
        self.assertIn("offline timeout", self.browser.text("#edges tr:first-child"))

    def test_of_one_user_when_a_filter_is_set(self):
        self.daemon.edge(b"al ice")
        for i in range(200):
            self.daemon.edge(b"other-%d" % i)
        self.open()
        self.browser.fill("#filter-uid", "al ice")
        self.browser.press(ENTER)
        self.browser.wait_for_text("#edges", "online login")
        self.browser.wait_for_text("#edges-mode", "live")
        self.daemon.edge(b"bob")
        self.daemon.edge(b"al ice", "offline", "logout")
        self.browser.wait_for_text("#edges tr:first-child", "offline logout")
        self.browser.wait_for_text("#edges-said", "offline, logout")
        self.assertNotIn("other", self.browser.text("#edges"))
        self.assertNotIn("bob", self.browser.text("#edges"))

    def test_show_evil_uids_as_harmless_text(self):
        for uid, _ in EVIL.values():
            self.daemon.edge(uid)
        self.open()
        self.browser.wait_for(f"return document.querySelectorAll('#edges .uid').length >= {len(EVIL)};")
        names = self.browser.run(
            "return Array.from(document.querySelectorAll('#edges .uid')).map((e) => e.textContent);")
        self.assertEqual(names, [shown for _, shown in reversed(EVIL.values())])
        self.assertEqual(self.browser.run("return document.querySelectorAll('#edges img, #edges script').length;"), 0)
        self.assertIsNone(self.browser.run("return window.hit ?? null;"))
        isolated = "return Array.from(document.querySelectorAll('#edges .uid')).every((e) => e.firstChild.localName === 'bdi');"
        self.assertTrue(self.browser.run(isolated))

    def test_that_are_missing_leave_a_mark(self):
        self.daemon.edge(b"alice")
        self.open()
        self.browser.wait_for_text("#edges", "alice")
        self.daemon.gap(17)
        self.browser.wait_for_text("#edges tr.gap", "17 edges are missing here")
        self.daemon.restart()
        self.browser.wait_for_text("#edges tr.gap:first-child", "the daemon has been started again")
        self.browser.wait_for_text("#edges-count", "Edges were missing 1 time.")
        self.daemon.edge(b"after")
        self.browser.wait_for_text("#edges tr:first-child", "after")

    def test_come_by_asking_where_streams_are_refused(self):
        self.daemon.streams_allowed = False
        self.browser.open(self.daemon.url)
        self.browser.wait_for_text("#edges-mode", "polling")
        self.daemon.edge(b"polled")
        self.browser.wait_for_text("#edges", "polled")

    def test_go_on_without_loss_or_repetition_after_a_break(self):
        self.open()
        self.daemon.edge(b"one")
        self.browser.wait_for_text("#edges", "one")
        self.daemon.streams_allowed = False
        self.browser.wait_for_text("#edges-mode", "polling")
        self.daemon.edge(b"two")
        self.browser.wait_for_text("#edges", "two")
        self.daemon.edge(b"three")
        self.browser.wait_for_text("#edges", "three")
        shown = self.browser.run(
            "return Array.from(document.querySelectorAll('#edges .uid')).map((e) => e.textContent);")
        self.assertEqual(shown, ["three", "two", "one"])

    def test_by_the_thousand_keep_the_page_small(self):
        self.open()
        for i in range(3_000):
            self.daemon.edge(b"crowd-%d" % i)
        self.browser.wait_for_text("#edges-count", "3,000")
        self.assertLessEqual(self.browser.run("return document.getElementById('edges').rows.length;"), 120)
        self.browser.wait_for_text("#edges", "crowd-2999")


class TokenTest(Page):
    def test_is_asked_for_and_kept_for_the_session_only(self):
        self.daemon.token = TOKEN
        self.browser.open(self.daemon.url)
        self.browser.wait_for("return document.getElementById('token').open;")
        self.assertEqual(self.browser.focused(), "token-value")
        self.browser.type("wrong" + ENTER)
        self.browser.wait_for_text("#token-error", "not the token")
        self.browser.type(TOKEN + ENTER)
        self.browser.wait_for_text("#phase", "serving")
        self.browser.wait_for_text("#edges-mode", "live")
        kept = self.browser.run("return [localStorage.length, document.cookie, sessionStorage.length];")
        self.assertEqual(kept, [0, "", 1])
        self.assertNotIn(TOKEN, self.browser.run("return location.href + document.body.innerHTML;"))

    def test_is_forgotten_on_request(self):
        self.daemon.token = TOKEN
        self.browser.open(self.daemon.url)
        self.browser.wait_for("return document.getElementById('token').open;")
        self.browser.type(TOKEN + ENTER)
        self.browser.wait_for_text("#phase", "serving")
        self.browser.wait_for_text("#forget", "Forget the token")
        self.browser.click("#forget")
        self.browser.wait_for("return document.getElementById('token').open;")


class AccessTest(Page):
    def test_everything_is_reached_by_keyboard_in_a_sensible_order(self):
        self.daemon.edge(b"alice")
        self.daemon.explanations["alice"] = somebody("alice")
        self.open()
        self.browser.wait_for_text("#edges", "alice")
        self.browser.wait_for_text("#wheel-levels", "30 s")
        self.browser.run("document.body.tabIndex = -1; document.body.focus();")
        path = []
        for _ in range(11):
            self.browser.press(TAB)
            path.append(self.browser.run("""
                const e = document.activeElement;
                return e.id || e.name || e.getAttribute('aria-label') || e.textContent.trim();
            """))
        self.assertEqual(path, ["Skip to the look-up of a user", "pause", "level",
                                "The same in numbers", "lookup-uid", "Look up", "filter-uid",
                                "Follow", "The newest edges first", "alice", "/metrics"])
        self.browser.press(SHIFT, TAB)
        self.browser.press(ENTER)  # the user of an edge
        self.browser.wait_for_text("#lookup-answer", "online: 1 session")
        self.assertEqual(self.browser.focused(), "lookup-uid")

    def test_the_focus_is_visible(self):
        self.open()
        self.browser.press(TAB)
        self.browser.press(TAB)
        self.assertEqual(self.browser.focused(), "pause")
        style = "return getComputedStyle(document.activeElement).outlineStyle;"
        self.assertEqual(self.browser.run(style), "solid")

    def test_a_screen_reader_finds_landmarks_names_and_headings(self):
        self.open()
        for css, expected in {
            "main": ("", "main"),
            ".wheel-card": ("The wheel", "region"),
            "#tiles": ("The last five minutes", "region"),
            "#lookup-uid": ("User id", "textbox"),
            "#filter-uid": ("Only of user", "textbox"),
            "#pause": ("Pause", "button"),
            "#trouble": ("", "alert"),
        }.items():
            with self.subTest(css):
                if css == "#trouble":
                    self.browser.run("document.getElementById('trouble').hidden = false;")
                name, role = self.browser.name_and_role(css)
                self.assertEqual((name.strip(), role), expected)
        headings = self.browser.run(
            "return Array.from(document.querySelectorAll('h1, h2, h3')).map((h) => h.localName);")
        self.assertEqual(headings[0], "h1")
        self.assertEqual(headings.count("h1"), 1)
        self.browser.wait_for("""
            return Array.from(document.querySelectorAll('.chart svg'))
                .every((c) => /now .* in the last/.test(c.getAttribute('aria-label')));
        """, what="a chart in words")

    def test_a_phone_scrolls_in_one_direction(self):
        self.browser.emulate(PHONE_WIDTH, 640, phone=True)
        for uid, _ in EVIL.values():
            self.daemon.edge(uid)
        self.daemon.edge(b"W" * 128)
        self.daemon.explanations["W" * 128] = somebody("W" * 128)
        self.open("#user=" + "W" * 128)
        self.browser.wait_for_text("#lookup-answer", "online: 1 session")
        self.browser.wait_for_text("#edges", "WWW")
        wide = self.browser.run("""
            return Array.from(document.querySelectorAll('body *'))
                .filter((e) => !e.closest('svg, .hidden, .skip') && e.getBoundingClientRect().right > innerWidth + 1)
                .map((e) => `${e.localName}.${e.className} ${e.getBoundingClientRect().right}`);
        """)
        self.assertEqual(wide, [])
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth;"), PHONE_WIDTH)

    def test_fingers_hit_what_they_aim_at(self):
        self.browser.emulate(PHONE_WIDTH, 640, phone=True)
        self.open()
        small = self.browser.run("""
            return Array.from(document.querySelectorAll('button, input[type=text], .segments label, summary'))
                .filter((e) => e.checkVisibility())
                .map((e) => [e.id || e.className || e.localName, e.getBoundingClientRect().height])
                .filter(([, height]) => height < 24);
        """)
        self.assertEqual(small, [])

    def test_is_readable_by_day_and_by_night(self):
        self.daemon.explanations["alice"] = somebody("alice")
        for scheme in ("light", "dark"):
            with self.subTest(scheme):
                self.browser.emulate(1280, 900, prefers_color_scheme=scheme)
                self.daemon.edge(b"alice", "offline", "timeout")
                self.daemon.edge(b"alice")
                self.daemon.gap(2)
                self.open("#user=alice")
                self.browser.wait_for_text("#lookup-answer", "online: 1 session")
                self.browser.wait_for_text("#edges", "missing here")
                ground = self.browser.run("return getComputedStyle(document.body).backgroundColor;")
                self.assertEqual(sum(map(int, re.findall(r"\d+", ground)[:3])) > 384, scheme == "light")
                self.assertEqual(self.browser.run(POOR_CONTRAST, CONTRAST_MIN), [])


class RealDaemonTest(Page):
    """What the stand-in only claims: with the daemon's own answers, encodings and headers."""

    program = None  # set by --daemon

    def setUp(self):
        if self.program is None:
            self.skipTest("no --daemon given")
        self.token = tempfile.NamedTemporaryFile("w", suffix=".token")
        self.addCleanup(self.token.close)
        self.start()
        self.browser.emulate(1280, 900)

    def start(self, *settings):
        self.daemon = RealDaemon(self.program, *settings)
        self.addCleanup(self.daemon.close)

    def log_in(self, uid, device=b""):
        client = Client(self.daemon, uid, device)
        self.addCleanup(client.close)
        return client

    def test_people_come_and_go_while_one_looks(self):
        self.log_in(b"early")
        self.open()
        self.browser.wait_for_text("#edges", "early")
        self.browser.wait_for_text("#hub-online", "1")
        bob = self.log_in(b"bob")
        self.browser.wait_for_text("#edges tr:first-child", "bob")
        self.browser.wait_for_text("#hub-online", "2")
        bob.logout()
        self.browser.wait_for_text("#edges tr:first-child", "offline logout")

    def test_a_user_is_explained(self):
        self.log_in(b"alice", b"phone 1")
        self.open("#user=alice")
        self.browser.wait_for_text("#lookup-answer .who", "online")
        answer = self.browser.text("#lookup-answer")
        for part in ("phone%201", "127.0.0.1", "of 30 s", "level 0, slot", "online login"):
            self.assertIn(part, answer)
        self.browser.wait_for("return document.querySelector('.mark').style.display !== 'none';")

    def test_deadlines_show_on_the_wheel(self):
        for i in range(20):
            self.log_in(b"user-%d" % i)
        self.open()
        self.browser.wait_for("""
            const text = document.getElementById('wheel-text').innerText;
            return parseInt(text) >= 20 && text.includes('deadlines in 30 slots of 1 s');
        """, what="20 deadlines on level 0")
        self.browser.wait_for(f"return (() => {{ {WheelTest.HEIGHTS} }})().some((h) => h > 0);")

    def test_evil_uids_go_through_unharmed(self):
        for uid, _ in EVIL.values():
            self.log_in(uid, device=uid)
        self.open()
        self.browser.wait_for(f"return document.querySelectorAll('#edges .uid').length >= {len(EVIL)};")
        names = self.browser.run(
            "return Array.from(document.querySelectorAll('#edges .uid')).map((e) => e.textContent);")
        self.assertEqual(sorted(names), sorted(shown for _, shown in EVIL.values()))
        for name, (_, shown) in EVIL.items():
            with self.subTest(name):
                self.browser.run("document.getElementById('lookup-uid').value = arguments[0];", shown)
                self.browser.click("#lookup button")
                self.browser.wait_for_text("#lookup-answer .who", shown)
                self.browser.wait_for_text("#lookup-answer .who", "online")
                self.browser.wait_for_text("#lookup-answer .session", shown)
        self.assertIsNone(self.browser.run("return window.hit ?? null;"))
        self.assertEqual(self.browser.errors(), [])

    def test_the_page_comes_without_a_token_and_its_numbers_with_one(self):
        self.token.write(TOKEN)
        self.token.flush()
        self.start(f"http.token_file={self.token.name}")
        self.browser.open(self.daemon.url)
        self.browser.wait_for("return document.getElementById('token').open;")
        self.browser.type(TOKEN + ENTER)
        self.browser.wait_for_text("#phase", "serving")
        self.browser.wait_for_text("#edges-mode", "live")

    def test_the_policy_stops_what_the_page_does_not_do(self):
        self.open()
        stopped = self.browser.run("""
            const script = document.createElement('script');
            try { script.text = 'window.hit = 1'; } catch { return 'trusted types'; }
            document.head.append(script);
            return window.hit ? 'ran' : 'policy';
        """)
        self.assertEqual(stopped, "trusted types")


def main():
    if webdriver.find_chromium() is None:
        print("skipped: no chromium or chromedriver here (Debian: apt-get install chromium "
              "chromium-driver, or ./dev test --label browser)")
        return EXIT_SKIPPED
    if sys.argv[1:2] == ["--daemon"]:
        RealDaemonTest.program = sys.argv[2]
        del sys.argv[1:3]
    return not unittest.main(argv=sys.argv, exit=False, verbosity=2).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
