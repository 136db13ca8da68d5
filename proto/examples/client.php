#!/usr/bin/env php
<?php
// Logs in, stays online for SECONDS (30), logs out: client.php HOST PORT UID [SECONDS]
const LOGIN = 0x01, KEEPALIVE = 0x02, LOGOUT = 0x04;  // PROTOCOL.md has all of them
const LOGIN_ACK = 0x81, KEEPALIVE_ACK = 0x82, LOGOUT_ACK = 0x84;
const ERROR = 0xC0, SETTINGS = 0xC1, GOAWAY = 0xC2;

function fail(string $why): never {
    fwrite(STDERR, "client.php: $why\n");
    exit(1);
}

function send($sock, int $kind, string $payload = ''): void {
    $frame = pack('CCn', $kind, 0, strlen($payload)) . $payload;
    if (@fwrite($sock, $frame) !== strlen($frame)) fail('the server closed the connection');
}

function read($sock, int $size): string {
    $bytes = $size > 0 ? stream_get_contents($sock, $size) : '';
    if (stream_get_meta_data($sock)['timed_out']) fail('the server does not answer');
    if (strlen($bytes) < $size) fail('the server closed the connection');
    return $bytes;
}

function receive($sock): array {
    ['kind' => $kind, 'size' => $size] = unpack('Ckind/Cflags/nsize', read($sock, 4));
    $payload = read($sock, $size);
    if ($kind === ERROR) fail('refused: ' . substr($payload, 3, ord($payload[2])));
    if ($kind === GOAWAY) {
        fail(vsprintf('goaway: reason %d, retry after %d ms', unpack('nreason/Nretry', $payload)));
    }
    return [$kind, $payload];
}

if ($argc < 4 || $argc > 5) fail('usage: client.php HOST PORT UID [SECONDS]');
[, $host, $port, $uid] = $argv;
if (str_contains($host, ':')) $host = "[$host]";  // an IPv6 address
$sock = @stream_socket_client("tcp://$host:$port", $errno, $error, 10) ?: fail($error);
stream_set_timeout($sock, 10);
stream_set_read_buffer($sock, 0);  // what stream_select() does not see must not exist
$sent = hrtime(true) / 1e9;
send($sock, LOGIN, pack('CCNCCn', 1, 1, 0, strlen($uid), 7, 0) . $uid . 'example');
[$kind, $payload] = receive($sock);
if ($kind !== LOGIN_ACK) fail(sprintf('frame type 0x%02x came instead of LOGIN_ACK', $kind));
$ack = unpack('Cversion/Cstatus/Ntimeout_ms/Ninterval_ms/Jsession', $payload);
vprintf("login_ack version=%u status=%u timeout_ms=%u interval_ms=%u session=%u\n", $ack);
[$interval, $answered] = [$ack['interval_ms'] / 1e3, true];
$end = hrtime(true) / 1e9 + (float)($argv[4] ?? 30);
while (($now = hrtime(true) / 1e9) < $end) {
    $wait = max(0, (int)((min($sent + $interval, $end) - $now) * 1e6));
    [$readable, $none] = [[$sock], null];
    if (stream_select($readable, $none, $none, intdiv($wait, 1000000), $wait % 1000000)) {
        [$kind, $payload] = receive($sock);  // an unknown push is skipped
        if ($kind === KEEPALIVE_ACK) $answered = true;
        if ($kind === SETTINGS) $interval = unpack('N', $payload, 4)[1] / 1e3;
    } elseif (hrtime(true) / 1e9 >= $sent + $interval) {
        if (!$answered) fail('the last KEEPALIVE was not acknowledged');
        [$sent, $answered] = [hrtime(true) / 1e9, false];
        send($sock, KEEPALIVE);
    }
}
send($sock, LOGOUT);
do [$kind] = receive($sock); while ($kind !== LOGOUT_ACK);
echo "logged out\n";
