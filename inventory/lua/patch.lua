#!lua
-- Runs one write of a Load on the keys of the epoch that it replaces. Only the Load for which the item is fenced writes
-- them: one that slept past its lease must not touch what its successor wrote.
--
-- KEYS[1] state   KEYS[2] the key to write
-- ARGV[1] epoch that the Load is going to write   ARGV[2] the epoch to be replaced
-- ARGV[3] command   ARGV[4 …] its arguments after the key, at most 4000
--
-- Returns {code, epoch}.
--   code: 0 done, 1 refused: the item has a later epoch or is fenced for one, 3 this is not the item that was fenced:
--   the Load must start over.
-- Errors: out of memory refuses the call before anything is written.
-- Cost: that of the command.

local state = redis.call('HMGET', KEYS[1], 'epoch', 'fenced')
local epoch, fenced, new = tonumber(state[1] or 0), tonumber(state[2] or 0), tonumber(ARGV[1])
if epoch >= new or fenced > new then
    return {1, math.max(epoch, fenced)}
end
if epoch ~= tonumber(ARGV[2]) or fenced ~= new then
    return {3, epoch}
end
redis.call(ARGV[3], KEYS[2], unpack(ARGV, 4))
return {0, epoch}
