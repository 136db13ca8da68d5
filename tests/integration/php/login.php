#!/usr/bin/env php
<?php
// The user is heard of, by a login or anything else, and online for TIMEOUT (30) seconds from now:
// login.php REDIS UID [TIMEOUT]
require __DIR__ . '/ring.php';

if ($argc < 3 || $argc > 4) fail('usage: login.php HOST:PORT|SOCKET UID [TIMEOUT]', 64);
[, $where, $uid] = $argv;
$timeout = seconds_of($argv[3] ?? '30');
[$second, $slot] = (new Ring($where))->login($uid, $timeout);
echo "second=$second slot=$slot\n";
