#!/usr/bin/env php
<?php
// How long a silent user stays online in a ring in Redis, for a login at the beginning of each second
// of a minute and a hand that comes once a second, without delay: the published formula, and the one
// of ring.php. Later within its second, a login has up to a second less.

const TIMEOUT = 30;

// From the login on, the seconds until the hand stands on the slot of the user.
function lifetime(int $login, callable $slot_of_login, callable $slot_of_hand): int {
    for ($second = $login + 1; $slot_of_hand($second) !== $slot_of_login($login); ++$second);
    return $second - $login;
}

function report(string $what, callable $slot_of_login, callable $slot_of_hand): void {
    $lifetimes = array_map(fn($login) => lifetime($login, $slot_of_login, $slot_of_hand), range(0, 59));
    $early = count(array_filter($lifetimes, fn($lifetime) => $lifetime < TIMEOUT));
    printf("%-10s %d to %d s; %d of 60 login seconds expire before %d s\n", $what, min($lifetimes),
           max($lifetimes), $early, TIMEOUT);
}

// 31 slots, 0 to 30. A login goes one slot behind the hand, where LINDEX takes -1 for the last slot.
$published = fn(int $second) => ($second %= 60) > 30 ? intdiv($second, 2) : $second;
report('published', fn($login) => ($published($login) + 30) % 31, $published);

// 32 slots. The deadline falls into second login + TIMEOUT; the hand comes behind that second.
report('ring.php', fn($login) => ($login + TIMEOUT + 1) % 32, fn($second) => $second % 32);
