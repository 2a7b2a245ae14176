#!lua flags=allow-oom
-- Stops an item from deciding, as the first step of a Load. The field "fenced" names the epoch that the Load is going to
-- write, so that only that Load or a later one opens the item again; 0 is open.
--
-- KEYS[1] state
-- ARGV[1] epoch that the Load is going to write
--
-- Returns {code, epoch, seq, 1 when Redis is the one that was loaded, run id that was loaded, run id that answers}; the
-- run ids come with code 0 only.
--   code: 0 fenced, 1 no state (nothing decides anyway), 2 refused: the item has that epoch or a later one already, or
--   is fenced for one, so the caller slept through its lease and must not stop what its successor opens.
-- Cost: O(1).

local state = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'run_id', 'fenced')
if not state[1] then
    return {1, 0, 0, 0}
end
local epoch, seq = tonumber(state[1]), tonumber(state[2])
local latest = math.max(epoch, tonumber(state[4]))
if latest >= tonumber(ARGV[1]) then
    return {2, latest, seq, 0}
end
redis.call('HSET', KEYS[1], 'fenced', ARGV[1])
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
return {0, epoch, seq, run == state[3] and 1 or 0, state[3], run}
