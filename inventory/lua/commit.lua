#!lua flags=allow-oom
-- Records that numbers are paid for, each exactly once, so that "sold out" differs from "all held". The user's mark
-- gets ":c" after the quantity.
--
-- KEYS[1] state   KEYS[2] users
-- ARGV[1] epoch that the caller knows
-- ARGV[2] n, at most 512
-- ARGV[3 .. 2+n]   users
-- ARGV[3+n .. 2+2n] numbers
--
-- Returns {code, epoch, numbers newly committed}; the codes are those of release.lua. A number that this epoch does not
-- hold needs nothing: Load counted it. Repeating it changes nothing. allow-oom, because it follows a payment and adds
-- two bytes.
-- Cost: O(n).

local state = redis.call('HMGET', KEYS[1], 'epoch', 'fenced')
if not state[1] then
    return {1, 0, 0}
end
if state[2] ~= '0' then
    return {2, tonumber(state[1]), 0}
end
if state[1] ~= ARGV[1] then
    return {3, tonumber(state[1]), 0}
end

local n = tonumber(ARGV[2])
local marks = redis.call('HMGET', KEYS[2], unpack(ARGV, 3, 2 + n))
local paid, changed, seen = 0, {}, {}
for i = 1, n do
    local user, number, mark = ARGV[2 + i], ARGV[2 + n + i], marks[i]
    if mark and not seen[user] and string.sub(mark, 1, 32) == number and not string.find(mark, ':[cx]$') then
        seen[user] = true
        paid = paid + (string.match(mark, ':(%d+)$') or 1)
        changed[#changed + 1] = user
        changed[#changed + 1] = mark .. ':c'
    end
end
if #changed > 0 then
    redis.call('HSET', KEYS[2], unpack(changed))
    redis.call('HINCRBY', KEYS[1], 'committed', paid)
end
return {0, tonumber(state[1]), #changed / 2}
