#!/usr/bin/env php
<?php
// The hand of the ring: once a second, for SECONDS seconds, takes out the users whose deadline has
// passed, and prints when and who (percent-encoded): loop.php REDIS SECONDS [TIMEOUT]
// When it was held up and reads a slot too late, the users in it get TIMEOUT (30) seconds more.
require __DIR__ . '/ring.php';

if ($argc < 3 || $argc > 4) fail('usage: loop.php HOST:PORT|SOCKET SECONDS [TIMEOUT]', 64);
$ring = new Ring($argv[1]);
$first = (int)$ring->now();
$last = $first + seconds_of($argv[2]);
$timeout = seconds_of($argv[3] ?? '30');
for ($second = $first; $second <= $last; ++$second) {
    while (($wait = $second - $ring->now()) > 0) usleep((int)ceil($wait * 1e6));
    [$read, $users] = $ring->expire($second, $timeout);
    if ($read !== $second) echo "late: slot of $second read in $read\n";
    foreach ($users as $uid) {
        printf("%.3f offline %s\n", $ring->now(), rawurlencode($uid));
    }
}
