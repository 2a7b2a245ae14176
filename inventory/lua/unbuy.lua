#!lua flags=allow-oom
-- Removes entries of an activity's buyers, each only if it is still the one that the caller read: meanwhile the user may
-- have bought again, or another item of the activity.
--
-- KEYS[1] buyers
-- ARGV[1] n, at most 512
-- ARGV[2 .. 1+n]    users
-- ARGV[2+n .. 1+2n] their entries, as the caller read them
--
-- Returns {entries removed}. Repeating it changes nothing.
-- Cost: O(n).

local n = tonumber(ARGV[1])
local buyers = redis.call('HMGET', KEYS[1], unpack(ARGV, 2, 1 + n))
local same = {}
for i = 1, n do
    if buyers[i] == ARGV[1 + n + i] then
        same[#same + 1] = ARGV[1 + i]
    end
end
if #same > 0 then
    redis.call('HDEL', KEYS[1], unpack(same))
end
return {#same}
