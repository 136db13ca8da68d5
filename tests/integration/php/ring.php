<?php
// The ring of presence in Redis, as a PHP front end uses it without Pulsewheel or beside it.
//
//   LIST testlist         names of the slots: slot-0, slot-1, ...; the position is a unix second mod R
//   SET  slot-N           the users who are offline when the hand reads this slot
//   HASH timeline-index   user => name of the slot
//
// A user heard of at second s, with a timeout of T, has its deadline within second s + T. The hand
// reads slot n during second n, so the user belongs to slot s + T + 1: offline at its beginning, never
// early and less than a second late. While second n lasts nobody is filed into slot n, as long as
// T + 1 < R. All seconds are those of Redis, so that clocks of hosts do not matter.

const LIST_KEY = 'testlist', INDEX_KEY = 'timeline-index';
const SLOTS = 32;

function fail(string $why, int $code = 1): never {
    fwrite(STDERR, basename($_SERVER['argv'][0]) . ": $why\n");
    exit($code);
}

// The value of an argument that is a number of whole seconds, at least 1.
function seconds_of(string $text): int {
    if (!preg_match('/^[1-9][0-9]{0,8}$/', $text)) fail("'$text' is no number of seconds", 64);
    return (int)$text;
}

final class Ring {
    // The slot at a position from 0 on; and a move, which takes a user out of one slot and into
    // another so that nobody ever sees the user in two or in none.
    private const MOVE = <<<'LUA'
        local function move(uid, second)
            local slots = redis.call('LLEN', KEYS[1])
            local slot = redis.call('LINDEX', KEYS[1], second % slots)
            local old = redis.call('HGET', KEYS[2], uid)
            if old then redis.call('SREM', old, uid) end
            redis.call('SADD', slot, uid)
            redis.call('HSET', KEYS[2], uid, slot)
            return slot
        end
        LUA;

    private const CREATE = <<<'LUA'
        if redis.call('EXISTS', KEYS[1]) == 0 then
            for slot = 0, ARGV[1] - 1 do redis.call('RPUSH', KEYS[1], 'slot-' .. slot) end
        end
        return redis.call('LLEN', KEYS[1])
        LUA;

    private const LOGIN = self::MOVE . <<<'LUA'

        local second = tonumber(redis.call('TIME')[1])
        return {second, move(ARGV[1], second + ARGV[2] + 1)}
        LUA;

    // Reads the slot of a second. Behind that second (the loop was held up) the slot may hold users
    // filed for its next round already, and nobody can tell which: they are all filed anew, late
    // rather than early. A member whom the index has in another slot is a leftover.
    private const HAND = self::MOVE . <<<'LUA'

        local due, timeout = tonumber(ARGV[1]), tonumber(ARGV[2])
        local second = tonumber(redis.call('TIME')[1])
        local slots = redis.call('LLEN', KEYS[1])
        local slot = redis.call('LINDEX', KEYS[1], due % slots)
        local expired = {}
        for _, uid in ipairs(redis.call('SMEMBERS', slot)) do
            if redis.call('HGET', KEYS[2], uid) ~= slot then
                redis.call('SREM', slot, uid)
            elseif second ~= due then
                move(uid, second + timeout + 1)
            else
                redis.call('SREM', slot, uid)
                redis.call('HDEL', KEYS[2], uid)
                table.insert(expired, uid)
            end
        end
        return {second, expired}
        LUA;

    public readonly int $slots;

    // $where: HOST:PORT, or the path of a socket. The password, if any, is in REDISCLI_AUTH.
    public function __construct(string $where, private Redis $redis = new Redis()) {
        try {
            if (str_starts_with($where, '/')) {
                $this->redis->connect($where);
            } else {
                [$host, $port] = explode(':', $where) + [1 => '6379'];
                $this->redis->connect($host, (int)$port, 5);
            }
            $password = getenv('REDISCLI_AUTH');
            if ($password !== false) $this->redis->auth($password);
            $this->slots = $this->script(self::CREATE, [SLOTS]);
        } catch (RedisException $error) {
            fail("$where: " . $error->getMessage(), 69);
        }
    }

    // Files the user for a deadline $timeout seconds from now. Returns the second and the slot.
    public function login(string $uid, int $timeout): array {
        if ($timeout > $this->slots - 2) {
            fail("a timeout of $timeout s does not fit into a ring of $this->slots slots", 64);
        }
        return $this->script(self::LOGIN, [$uid, $timeout]);
    }

    // The name of the user's slot, or null when the user is offline.
    public function slot_of(string $uid): ?string {
        $slot = $this->redis->hGet(INDEX_KEY, $uid);
        return $slot !== false && $this->redis->sIsMember($slot, $uid) ? $slot : null;
    }

    // Takes the users out whose slot is that of $second. Call it once, within that second. Returns the
    // second that it was, and the users.
    public function expire(int $second, int $timeout): array {
        return $this->script(self::HAND, [$second, $timeout]);
    }

    // Redis' clock, in seconds.
    public function now(): float {
        [$seconds, $microseconds] = $this->redis->time();
        return $seconds + $microseconds / 1e6;
    }

    private function script(string $text, array $arguments): mixed {
        $this->redis->clearLastError();
        $keys = [LIST_KEY, INDEX_KEY];
        $answer = $this->redis->eval($text, [...$keys, ...$arguments], count($keys));
        if ($this->redis->getLastError() !== null) fail('Redis: ' . $this->redis->getLastError());
        return $answer;
    }
}
