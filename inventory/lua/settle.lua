#!lua flags=allow-oom
-- Removes an item's keys when its sale is over and everything about it is in Postgres. Nothing loads an ended item
-- again, so this is the last change to it in Redis. The figures that the caller read are compared again in the same
-- step as the removal: a unit that moved meanwhile keeps the keys.
--
-- KEYS[1] state   KEYS[2] users   KEYS[3] holds   KEYS[4] gone
-- ARGV[1] epoch of the keys
-- ARGV[2] remaining   ARGV[3] committed   ARGV[4] rel   ARGV[5] seq, as the caller read them; ARGV[2] is empty if the
--         state decides nothing, because it is from another run of Redis or a Load stopped half way
-- ARGV[6] the field of holds that is not a hold, see WeightField in stock/item.go
--
-- Returns {code}.
--   code: 0 removed, 1 there was no state, 2 kept: another epoch, the sale is not over, or something moved.
-- Repeating it changes nothing.
-- Cost: O(1); the memory is freed in the background.

local state = redis.call('HMGET', KEYS[1], 'epoch', 'closes_ms', 'remaining', 'committed', 'rel', 'seq')
if not state[1] then
    return {1}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if state[1] ~= ARGV[1] or tonumber(state[2]) > now then
    return {2}
end
if ARGV[2] ~= '' and (state[3] ~= ARGV[2] or state[4] ~= ARGV[3] or state[5] ~= ARGV[4] or state[6] ~= ARGV[5]) then
    return {2}
end
if redis.call('HLEN', KEYS[3]) > redis.call('HEXISTS', KEYS[3], ARGV[6]) then
    return {2}
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
return {0}
