#!lua flags=allow-oom
-- Returns the units of numbers that have ended, each exactly once, and remembers the numbers so that their paths are
-- not used again. Units are returned only while the user's mark still names the number: a number that this epoch does
-- not hold was settled by Load already. A closing that comes after its number was taken up again (see retake.lua) leaves
-- that alone. If a user may buy only once, a closed number leaves "<number>:x" as its user's mark: no longer a hold, but
-- it blocks the next one.
--
-- KEYS[1] state   KEYS[2] users   KEYS[3] holds   KEYS[4] gone   KEYS[5] buyers, only with one item per activity
-- ARGV[1] epoch that the caller knows
-- ARGV[2] how long a number is remembered, in ms
-- ARGV[3] n, at most 512
-- ARGV[4 .. 3+n]   users
-- ARGV[4+n .. 3+2n] numbers
-- ARGV[4+2n] a member of gone that is long enough to keep it from being packed, see WeightField in stock/item.go
-- ARGV[5+2n] the status of the orders: closed, refused or refunded
--
-- Returns {code, epoch, rel, holds released}.
--   code: 0 done, 1 no state, 2 fenced (to be repeated), 3 another epoch (to be repeated with the one returned).
-- Repeating it changes nothing. It frees memory overall, hence allow-oom: stock must be returned even if Redis is full.
-- Cost: O(n log tombstones).

local state = redis.call('HMGET', KEYS[1], 'epoch', 'fenced', 'rel', 'rebuy')
if not state[1] then
    return {1, 0, 0, 0}
end
if state[2] ~= '0' then
    return {2, tonumber(state[1]), tonumber(state[3]), 0}
end
if state[1] ~= ARGV[1] then
    return {3, tonumber(state[1]), tonumber(state[3]), 0}
end

local n = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local marks = redis.call('HMGET', KEYS[2], unpack(ARGV, 4, 3 + n))
local buyers
if KEYS[5] then
    buyers = redis.call('HMGET', KEYS[5], unpack(ARGV, 4, 3 + n))
end

local once = ARGV[5 + 2 * n] ~= 'refused' and state[4] == '0'
local scores = redis.call('ZMSCORE', KEYS[4], unpack(ARGV, 4 + n, 3 + 2 * n))
local units, paid, given = 0, 0, 0
local freed, left, unbought, bought, tombs, numbers = {}, {}, {}, {}, {}, {}
local seen = {}
for i = 1, n do
    local user, number = ARGV[3 + i], ARGV[3 + n + i]
    local again = scores[i] == 'inf'
    if not seen[number] and not (again and ARGV[5 + 2 * n] == 'closed') then
        seen[number] = true
        numbers[#numbers + 1] = number
        tombs[#tombs + 1] = again and 'inf' or now + ARGV[2]
        tombs[#tombs + 1] = number
        local mark = marks[i]
        if mark and string.sub(mark, 1, 32) == number and string.sub(mark, -2) ~= ':x' then
            local quantity, committed = string.match(mark, '^%x+:?(%d*):?(c?)$')
            quantity = tonumber(quantity) or 1
            units = units + quantity
            if committed == 'c' then
                paid = paid + quantity
            end
            given = given + 1
            freed[given] = user
            left[2 * given - 1], left[2 * given] = user, number .. ':x'
        end
        local buyer = buyers and buyers[i]
        if buyer and string.sub(buyer, 1, 32) == number and string.sub(buyer, -2) ~= ':x' then
            unbought[#unbought + 1] = user
            bought[#bought + 1] = user
            bought[#bought + 1] = buyer .. ':x'
        end
    end
end

redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
if #numbers == 0 then
    return {0, tonumber(state[1]), tonumber(state[3]), 0}
end
redis.call('ZADD', KEYS[4], 'inf', ARGV[4 + 2 * n], unpack(tombs))
-- A number that ends before its order row was seen leaves the queue like one whose row exists; otherwise every
-- number behind it would keep waiting for it.
local closed = redis.call('HDEL', KEYS[3], unpack(numbers))
if closed > 0 then
    redis.call('HINCRBY', KEYS[1], 'persisted', closed)
end
if once and #bought > 0 then
    redis.call('HSET', KEYS[5], unpack(bought))
elseif #unbought > 0 then
    redis.call('HDEL', KEYS[5], unpack(unbought))
end
local rel = tonumber(state[3])
if given > 0 then
    if once then
        redis.call('HSET', KEYS[2], unpack(left))
    else
        redis.call('HDEL', KEYS[2], unpack(freed))
    end
    redis.call('HINCRBY', KEYS[1], 'remaining', units)
    if paid > 0 then
        redis.call('HINCRBY', KEYS[1], 'committed', -paid)
    end
    rel = redis.call('HINCRBY', KEYS[1], 'rel', given)
end
return {0, tonumber(state[1]), rel, given}
