#!lua
-- The last step of a Load: replaces the state, which switches the item to the new epoch's keys and lets it decide
-- again. The keys named by the new epoch have been written before; nobody reads them until now.
--
-- KEYS[1] state   KEYS[2 …] the replaced epoch's users, holds and gone, freed here
-- ARGV[1] epoch, the new one   ARGV[2] the replaced epoch, 0 when there was no state
-- ARGV[3] rev   ARGV[4] total on offer   ARGV[5] remaining   ARGV[6] committed   ARGV[7] opens_ms   ARGV[8] closes_ms
-- ARGV[9] limit   ARGV[10] paused   ARGV[11] unlimited   ARGV[12] rebuy
--
-- Returns {code, epoch, rel}.
--   code: 0 loaded, 1 refused: the item has that epoch or a later one, or is fenced for a later one, 2 another epoch is
--   there than the one named as replaced (to be repeated with it, so that its keys are freed).
-- Cost: O(1); the old keys are freed in the background.

local state = redis.call('HMGET', KEYS[1], 'epoch', 'rel', 'fenced')
local rel = 0
if state[1] then
    local epoch, fenced = tonumber(state[1]), tonumber(state[3])
    if epoch >= tonumber(ARGV[1]) or fenced > tonumber(ARGV[1]) then
        return {1, math.max(epoch, fenced), tonumber(state[2])}
    end
    if state[1] ~= ARGV[2] then
        return {2, epoch, tonumber(state[2])}
    end
    -- Units may have come back by this Load, so that a flag set before it is stale.
    rel = tonumber(state[2]) + 1
end
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'run_id', run, 'rev', ARGV[3], 'total', ARGV[4], 'remaining', ARGV[5],
    'committed', ARGV[6], 'opens_ms', ARGV[7], 'closes_ms', ARGV[8], 'limit', ARGV[9], 'paused', ARGV[10],
    'unlimited', ARGV[11], 'rebuy', ARGV[12], 'fenced', 0, 'seq', 0, 'persisted', 0, 'rel', rel)
if #KEYS > 1 then
    redis.call('UNLINK', unpack(KEYS, 2))
end
return {0, tonumber(ARGV[1]), rel}
