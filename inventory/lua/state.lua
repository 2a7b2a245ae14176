#!lua flags=no-writes
-- Reads an item's state, and whether this Redis is the one that it was loaded into. For a caller that has read the
-- item's holders by cursor it also says what moved meanwhile.
--
-- KEYS[1] state   KEYS[2] users   KEYS[3] gone, both only after a read of the holders
-- ARGV[1] score of gone from which numbers are of interest   ARGV[2] how many of them at most
--
-- Returns {} without a state, else {1 if the run id matches, epoch, rev, total, remaining, committed, rel, seq,
-- persisted, opens_ms, closes_ms, limit, paused, unlimited, fenced, rebuy, retaken, shards of the item, now_ms}, all
-- integers; with the other keys followed by {fields in users, number, score, …}, scores rising.
-- Cost: O(1), or O(log tombstones + ARGV[2]).

local state = redis.call('HMGET', KEYS[1], 'run_id', 'epoch', 'rev', 'total', 'remaining', 'committed', 'rel', 'seq',
    'persisted', 'opens_ms', 'closes_ms', 'limit', 'paused', 'unlimited', 'fenced', 'rebuy', 'retaken', 'shards')
if not state[1] then
    return {}
end
state[1] = string.find(redis.call('INFO', 'server'), 'run_id:' .. state[1], 1, true) and 1 or 0
for i = 2, #state do
    state[i] = tonumber(state[i] or 0)
end
local time = redis.call('TIME')
state[#state + 1] = time[1] * 1000 + math.floor(time[2] / 1000)
if KEYS[2] then
    state[#state + 1] = redis.call('HLEN', KEYS[2])
    local gone = redis.call('ZRANGEBYSCORE', KEYS[3], ARGV[1], '(+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
    for i = 1, #gone do
        state[#state + 1] = gone[i]
    end
end
return state
