#!lua flags=allow-oom
-- Applies an operator's change to a loaded item. Only a newer revision takes effect, so late and repeated
-- calls are harmless, and stock moves by the difference of the plans: units held meanwhile stay held. A plan leaves out
-- the units that retake.lua added: those are sold and were never on sale.
--
-- KEYS[1] state
-- ARGV[1] rev   ARGV[2] units planned for sale   ARGV[3] opens_ms   ARGV[4] closes_ms   ARGV[5] limit
-- ARGV[6] paused, 0 or 1   ARGV[7] rebuy, 0 or 1
--
-- Returns {code, epoch, rel, units added}.
--   code: 0 applied, 1 no state (Load will write the change), 2 not newer.
-- allow-oom, because it rewrites fields that exist: a pause must reach a full Redis, and refunded units wait for it.
-- Cost: O(1).

local state = redis.call('HMGET', KEYS[1], 'epoch', 'rev', 'total', 'rel', 'retaken')
if not state[1] then
    return {1, 0, 0, 0}
end
if tonumber(ARGV[1]) <= tonumber(state[2]) then
    return {2, tonumber(state[1]), tonumber(state[4]), 0}
end
local retaken = tonumber(state[5] or 0)
local added = ARGV[2] + retaken - state[3]
redis.call('HSET', KEYS[1], 'rev', ARGV[1], 'total', ARGV[2] + retaken, 'opens_ms', ARGV[3], 'closes_ms', ARGV[4],
    'limit', ARGV[5], 'paused', ARGV[6], 'rebuy', ARGV[7])
local rel = tonumber(state[4])
if added ~= 0 then
    redis.call('HINCRBY', KEYS[1], 'remaining', added)
end
if added > 0 then
    -- New units clear sold-out flags as returned ones do.
    rel = redis.call('HINCRBY', KEYS[1], 'rel', 1)
end
return {0, tonumber(state[1]), rel, added}
