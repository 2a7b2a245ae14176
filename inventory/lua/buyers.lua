#!lua flags=allow-oom
-- Brings one item's entries among the buyers of its activity in line with the item's users, for the users named. An
-- entry is removed only if the user has no mark, and replaced only if it names another number than the mark; entries of
-- the activity's other items stay.
--
-- KEYS[1] state   KEYS[2] users   KEYS[3] buyers
-- ARGV[1] item id   ARGV[2] epoch of users
-- ARGV[3] n, at most 512
-- ARGV[4 .. 3+n] users
--
-- Returns {code, entries changed}.
--   code: 0 done, 1 the item has another epoch or is fenced: nothing was changed.
-- Repeating it changes nothing. allow-oom: an entry that is missing lets a user buy twice.
-- Cost: O(n).

local state = redis.call('HMGET', KEYS[1], 'epoch', 'fenced')
if state[1] ~= ARGV[2] or state[2] ~= '0' then
    return {1, 0}
end
local n = tonumber(ARGV[3])
local marks = redis.call('HMGET', KEYS[2], unpack(ARGV, 4, 3 + n))
local buyers = redis.call('HMGET', KEYS[3], unpack(ARGV, 4, 3 + n))
local ours = ':' .. ARGV[1]
local set, removed = {}, {}
for i = 1, n do
    local mark, buyer = marks[i], buyers[i]
    local rest = buyer and string.sub(buyer, 33)
    if not buyer or rest == ours or rest == ours .. ':x' then
        local wanted = mark and string.sub(mark, 1, 32) .. ours
        if mark and string.sub(mark, -2) == ':x' then
            wanted = wanted .. ':x'
        end
        if wanted and wanted ~= buyer then
            set[#set + 1] = ARGV[3 + i]
            set[#set + 1] = wanted
        elseif buyer and not wanted then
            removed[#removed + 1] = ARGV[3 + i]
        end
    end
end
if #set > 0 then
    redis.call('HSET', KEYS[3], unpack(set))
end
if #removed > 0 then
    redis.call('HDEL', KEYS[3], unpack(removed))
end
return {0, #set / 2 + #removed}
