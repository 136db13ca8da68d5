#!/usr/bin/env php
<?php
// How long a silent user with a timeout of 30 s stays online in a ring in Redis whose slots hold no
// deadlines: with the published formula, and with one slot a second and rings of several lengths.

const TIMEOUT_MS = 30_000;

// The published formula, in a list of 31. A login goes one slot behind the hand, and LINDEX takes -1
// for the last slot.
function published_slot(int $second): int {
    $second %= 60;
    return $second > 30 ? intdiv($second, 2) : $second;
}

// Milliseconds from a login at the beginning of a second until the hand, which comes once a second
// and without delay, stands on the slot of the user.
function published_lifetime(int $login): int {
    $slot = (published_slot($login) + 30) % 31;
    for ($second = $login + 1; published_slot($second) !== $slot; ++$second);
    return ($second - $login) * 1000;
}

// The same for a login at any millisecond, $ahead slots in front of that second, and a hand that
// reads the slot of each second $delay ms late.
function lifetime(int $login_ms, int $slots, int $ahead, int $delay): int {
    $login = intdiv($login_ms, 1000);
    for ($second = $login; ; ++$second) {
        $read_ms = $second * 1000 + $delay;
        if ($read_ms > $login_ms && ($second - $login - $ahead) % $slots === 0) {
            return $read_ms - $login_ms;
        }
    }
}

function report(string $what, array $lifetimes): void {
    $early = count(array_filter($lifetimes, fn($lifetime) => $lifetime < TIMEOUT_MS));
    printf("%-42s %6.3f to %6.3f s, %5.1f %% before 30 s\n", $what, min($lifetimes) / 1000,
           max($lifetimes) / 1000, 100 * $early / count($lifetimes));
}

report('second > 30 ? second / 2 : second', array_map(published_lifetime(...), range(0, 59)));
foreach ([0, 5] as $delay) {
    foreach ([[30, 29], [31, 31], [32, 31]] as [$slots, $ahead]) {
        report("$slots slots, $ahead ahead, hand $delay ms late", array_map(
            fn($login_ms) => lifetime($login_ms, $slots, $ahead, $delay), range(0, 59_999)));
    }
}
