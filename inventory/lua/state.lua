#!lua flags=no-writes
-- Reads an item's state, and whether this Redis is the one that it was loaded into.
--
-- KEYS[1] state
--
-- Returns {} without a state, else {1 if the run id matches, epoch, rev, total, remaining, committed, rel, seq,
-- persisted, opens_ms, closes_ms, limit, paused, unlimited, fenced, rebuy}, all integers.
-- Cost: O(1).

local state = redis.call('HMGET', KEYS[1], 'run_id', 'epoch', 'rev', 'total', 'remaining', 'committed', 'rel', 'seq',
    'persisted', 'opens_ms', 'closes_ms', 'limit', 'paused', 'unlimited', 'fenced', 'rebuy')
if not state[1] then
    return {}
end
state[1] = string.find(redis.call('INFO', 'server'), 'run_id:' .. state[1], 1, true) and 1 or 0
for i = 2, #state do
    state[i] = tonumber(state[i])
end
return state
