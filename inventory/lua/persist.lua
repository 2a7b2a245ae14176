#!lua flags=allow-oom
-- Records that order rows exist for some numbers: they leave the holds hash and the queue moves on.
--
-- KEYS[1] state   KEYS[2] holds
-- ARGV[1] epoch under which the numbers were granted
-- ARGV[2 …] numbers, at most 1000
--
-- Returns how many were still open. Another epoch or no state returns 0: Load has already counted those orders.
-- Repeating it changes nothing. It only frees memory, hence allow-oom.
-- Cost: O(numbers).

if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
    return 0
end
local closed = redis.call('HDEL', KEYS[2], unpack(ARGV, 2))
if closed > 0 then
    redis.call('HINCRBY', KEYS[1], 'persisted', closed)
end
return closed
