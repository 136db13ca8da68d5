#!/usr/bin/env php
<?php
// Is the user online? Exit code 0: yes, 1: no. lookup.php REDIS UID
require __DIR__ . '/ring.php';

if ($argc !== 3) fail('usage: lookup.php HOST:PORT|SOCKET UID', 64);
[, $where, $uid] = $argv;
$slot = (new Ring($where))->slot_of($uid);
echo $slot === null ? "offline\n" : "online slot=$slot\n";
exit($slot === null ? 1 : 0);
