#!lua flags=allow-oom
-- Stops an item from deciding, as the first step of a Load. The field "fenced" names the epoch that the Load is going to
-- write, so that only that Load or a later one opens the item again; 0 is open.
--
-- KEYS[1] state
-- ARGV[1] epoch that the Load is going to write
--
-- Returns {code, epoch, seq, 1 if Redis is the one that was loaded, run id that was loaded, current run id}; the
-- run id that was loaded is empty without a state, and code 2 returns neither.
--   code: 0 fenced, 1 no state (nothing decides anyway), 2 refused: the item has that epoch or a later one already, or
--   is fenced for a later one, so the caller's lease expired and it must not stop what its successor opens.
-- Repeating it returns the same, for a client that lost the first answer. Two Loads that planned the same epoch may both
-- pass; Postgres lets only one of them write it.
-- Cost: O(1).

local state = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'run_id', 'fenced')
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if not state[1] then
    return {1, 0, 0, 0, '', run}
end
local epoch, seq, fenced, new = tonumber(state[1]), tonumber(state[2]), tonumber(state[4]), tonumber(ARGV[1])
if epoch >= new or fenced > new then
    return {2, math.max(epoch, fenced), seq, 0}
end
redis.call('HSET', KEYS[1], 'fenced', ARGV[1])
return {0, epoch, seq, run == state[3] and 1 or 0, state[3], run}
