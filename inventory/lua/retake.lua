#!lua flags=allow-oom
-- Takes up again the numbers of closed orders that were paid late, with units of the backup stock, each exactly once.
-- The units were never on sale: total rises by them and remaining does not. A number that its user's mark still names is
-- released in the same step, as if its release, which may be under way, had been first; gone keeps the number with the
-- score inf, by which the release finds out.
--
-- KEYS[1] state   KEYS[2] users   KEYS[3] holds   KEYS[4] gone   KEYS[5] buyers, only with one item per activity
-- ARGV[1] epoch that the caller knows
-- ARGV[2] item id
-- ARGV[3] a member of gone that is long enough to keep it from being packed, see WeightField in stock/item.go
-- ARGV[4] n, at most 512
-- ARGV[5 .. 4+n]     users
-- ARGV[5+n .. 4+2n]  numbers
-- ARGV[5+2n .. 4+3n] quantities
--
-- Returns {code, epoch, rel, numbers newly taken, units released, index…}; the codes are those of release.lua. The
-- indexes, from 1, are of numbers that have to wait: their user holds another number, which Postgres is about to refuse
-- or has closed. They are to be repeated when that is released.
-- Repeating it changes nothing. A number that counts as paid for and is not in gone says that gone was lost: the call
-- fences the item for a Load. allow-oom, because it follows a payment.
-- Cost: O(n log tombstones).

local state = redis.call('HMGET', KEYS[1], 'epoch', 'fenced', 'rel')
if not state[1] then
    return {1, 0, 0, 0, 0}
end
if state[2] ~= '0' then
    return {2, tonumber(state[1]), tonumber(state[3]), 0, 0}
end
if state[1] ~= ARGV[1] then
    return {3, tonumber(state[1]), tonumber(state[3]), 0, 0}
end

local n = tonumber(ARGV[4])
local marks = redis.call('HMGET', KEYS[2], unpack(ARGV, 5, 4 + n))
local scores = redis.call('ZMSCORE', KEYS[4], unpack(ARGV, 5 + n, 4 + 2 * n))
local buyers
if KEYS[5] then
    buyers = redis.call('HMGET', KEYS[5], unpack(ARGV, 5, 4 + n))
end

-- Whether a mark or an entry of buyers lets the number take its place.
local function free(mark, number)
    return not mark or string.sub(mark, 1, 32) == number or string.sub(mark, -2) == ':x'
end

local taken, units, released, returned = 0, 0, 0, 0
local users, bought, tombs, numbers, waiting = {}, {}, {}, {}, {}
local seen = {}
for i = 1, n do
    local user, number, quantity = ARGV[4 + i], ARGV[4 + n + i], tonumber(ARGV[4 + 2 * n + i])
    local mark = marks[i]
    if scores[i] == 'inf' or seen[number] then
        -- It was taken up before.
    elseif mark and string.sub(mark, 1, 32) == number and string.sub(mark, -2) == ':c' then
        redis.call('HSET', KEYS[1], 'fenced', state[1] + 1)
        return {2, tonumber(state[1]), tonumber(state[3]), 0, 0}
    elseif seen[user] or not free(mark, number) or buyers and not free(buyers[i], number) then
        waiting[#waiting + 1] = i
    else
        seen[user], seen[number] = true, true
        taken, units = taken + 1, units + quantity
        if mark and string.sub(mark, 1, 32) == number and string.sub(mark, -2) ~= ':x' then
            released, returned = released + 1, returned + quantity
        end
        users[#users + 1] = user
        users[#users + 1] = number .. (quantity ~= 1 and ':' .. quantity or '') .. ':c'
        bought[#bought + 1] = user
        bought[#bought + 1] = number .. ':' .. ARGV[2]
        tombs[#tombs + 1] = 'inf'
        tombs[#tombs + 1] = number
        numbers[#numbers + 1] = number
    end
end

local rel = tonumber(state[3])
if taken > 0 then
    redis.call('HSET', KEYS[2], unpack(users))
    if buyers then
        redis.call('HSET', KEYS[5], unpack(bought))
    end
    redis.call('ZADD', KEYS[4], 'inf', ARGV[3], unpack(tombs))
    local closed = redis.call('HDEL', KEYS[3], unpack(numbers))
    if closed > 0 then
        redis.call('HINCRBY', KEYS[1], 'persisted', closed)
    end
    redis.call('HINCRBY', KEYS[1], 'total', units)
    redis.call('HINCRBY', KEYS[1], 'retaken', units)
    redis.call('HINCRBY', KEYS[1], 'committed', units)
    if released > 0 then
        redis.call('HINCRBY', KEYS[1], 'remaining', returned)
        rel = redis.call('HINCRBY', KEYS[1], 'rel', released)
    end
end
return {0, tonumber(state[1]), rel, taken, returned, unpack(waiting)}
