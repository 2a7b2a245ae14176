#!lua
-- The last step of a Load: gives the item's keys the new epoch's names and replaces the state, which lets the item
-- decide again. The keys were brought to what Postgres says before, in place: those of the replaced epoch, or without a
-- state those of the new one. The caller passes the run id of the Redis that it wrote them to and their sizes, because
-- a Load whose keys were lost in a failover or freed by another Load must not open the item: without its holders the
-- item would look ready, and nothing would load it again.
--
-- KEYS[1] state   KEYS[2] users   KEYS[3] holds   KEYS[4] gone, these three the new epoch's
-- KEYS[5 … 7] the replaced epoch's users, holds and gone, only if there was a state when the item was fenced
-- ARGV[1] epoch, the new one   ARGV[2] the replaced epoch, 0 when there was no state
-- ARGV[3] rev   ARGV[4] total on offer   ARGV[5] remaining   ARGV[6] committed   ARGV[7] opens_ms   ARGV[8] closes_ms
-- ARGV[9] limit   ARGV[10] paused   ARGV[11] unlimited   ARGV[12] rebuy
-- ARGV[13] run id of the Redis that was fenced   ARGV[14] entries of users   ARGV[15] of gone
-- ARGV[16] the field of holds that is not a hold, see WeightField in stock/item.go   ARGV[17] its value
-- ARGV[18] units of total that were taken up again, see retake.lua   ARGV[19] shards of the item
--
-- Returns {code, epoch, rel}.
--   code: 0 loaded, 1 refused: the item has a later epoch or is fenced for one, 3 this is not the item that was fenced,
--   or another Redis, or keys are missing: the Load must start over.
-- Repeating it changes nothing: only one Load writes an epoch, so if the item has this one, the caller opened it.
-- Cost: O(1); the old holds are freed in the background.

local state = redis.call('HMGET', KEYS[1], 'epoch', 'rel', 'fenced')
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local rel, epoch, new = 0, 0, tonumber(ARGV[1])
if state[1] then
    local fenced = tonumber(state[3])
    rel, epoch = tonumber(state[2]), tonumber(state[1])
    if epoch > new or fenced > new then
        return {1, math.max(epoch, fenced), rel}
    end
end
if run ~= ARGV[13] then
    return {3, epoch, rel}
end
if epoch == new then
    return {0, epoch, rel}
end
local from = #KEYS > 4 and 5 or 2
if epoch ~= tonumber(ARGV[2]) or state[1] and state[3] ~= ARGV[1]
    or redis.call('HLEN', KEYS[from]) ~= tonumber(ARGV[14]) or redis.call('ZCARD', KEYS[from + 2]) ~= tonumber(ARGV[15]) then
    return {3, epoch, rel}
end
if state[1] then
    -- This Load may have returned units, so a sold-out flag set before it is stale.
    rel = rel + 1
end
if from > 2 then
    redis.call('RENAME', KEYS[5], KEYS[2])
    redis.call('UNLINK', KEYS[4], KEYS[6])
    if ARGV[15] ~= '0' then
        redis.call('RENAME', KEYS[7], KEYS[4])
    end
end
redis.call('UNLINK', KEYS[1], KEYS[3])
redis.call('HSET', KEYS[3], ARGV[16], ARGV[17])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'run_id', run, 'rev', ARGV[3], 'total', ARGV[4], 'remaining', ARGV[5],
    'committed', ARGV[6], 'opens_ms', ARGV[7], 'closes_ms', ARGV[8], 'limit', ARGV[9], 'paused', ARGV[10],
    'unlimited', ARGV[11], 'rebuy', ARGV[12], 'retaken', ARGV[18], 'shards', ARGV[19], 'fenced', 0, 'seq', 0, 'persisted', 0, 'rel', rel)
return {0, new, rel}
