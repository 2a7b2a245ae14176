#!lua flags=allow-oom
-- Notes that order rows exist for some numbers: their holds need no watching any more and the queue moves on.
--
-- KEYS[1] state   KEYS[2] holds
-- ARGV[1] epoch under which the numbers were granted
-- ARGV[2 …] numbers, at most 1000
--
-- Returns how many were still open. Another epoch or no state is 0: Load has already taken those orders over.
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
