-- Puts orders into the cache unless an equal or newer version is there.
--
-- KEYS[1]           hash of the long-lived orders, number → entry
-- KEYS[2]           hash of the short-lived orders
-- ARGV[1]           1 for the first hash, 2 for the second
-- ARGV[2]           lifetime in seconds
-- ARGV[3]           "new": an existing entry stays; "newer": an older version, or a value that is not an order, is replaced
-- ARGV[4]           n, the number of orders, at most 512
-- ARGV[5 .. 4+n]    their numbers, 16 bytes each
-- ARGV[5+n .. 4+2n] their entries, which begin with "o<version>:"
--
-- Returns  {stored, kept because an equal or newer version is there, not stored for lack of memory}
--          The older entry of an order that there was no memory for is deleted, so that readers read Postgres
--          instead of stale data.
-- Errors   Redis errors other than lack of memory (read-only replica, disk error)
-- Cost     one HMGET and one HSET for all; they are rarely in both hashes
--
-- There is no shebang line on purpose: Redis either refuses a script with flags entirely when memory is short, so
-- that it could not delete anything, or lets it grow beyond the limit.
local n, new = tonumber(ARGV[4]), ARGV[3] == 'new'
local function version(entry)
    return entry and tonumber(string.match(entry, '^o(%d+):') or -1)
end

local long, short = redis.call('HMGET', KEYS[1], unpack(ARGV, 5, 4 + n)), {}
if redis.call('EXISTS', KEYS[2]) == 1 then
    short = redis.call('HMGET', KEYS[2], unpack(ARGV, 5, 4 + n))
end
local pairs_to_set, numbers, old = {}, {}, {}
local taken = {} -- number → version, of this call
local kept = 0
for i = 1, n do
    local no, entry = ARGV[4 + i], ARGV[4 + n + i]
    local have = taken[no]
    if not have then
        have = version(long[i])
        local other = version(short[i])
        if other and (not have or other > have) then
            have = other
        end
    end
    local mine = version(entry)
    if have and (new or have >= mine) then
        kept = kept + 1
    else
        taken[no] = mine
        numbers[#numbers + 1] = no
        pairs_to_set[#pairs_to_set + 1] = no
        pairs_to_set[#pairs_to_set + 1] = entry
        if have then
            old[#old + 1] = no
        end
    end
end
if #numbers == 0 then
    return {0, kept, 0}
end

local here = KEYS[tonumber(ARGV[1])]
local set = redis.pcall('HSET', here, unpack(pairs_to_set))
if type(set) == 'table' and set.err then
    if string.find(set.err, 'OOM', 1, true) then
        if #old > 0 then
            redis.call('HDEL', KEYS[1], unpack(old))
            redis.call('HDEL', KEYS[2], unpack(old))
        end
        return {0, kept, #numbers}
    end
    return redis.error_reply(set.err)
end
-- The first hash lives as long as its last order. The second expires that long after its first order: its orders
-- must not stay longer, however many follow.
local lives = redis.call('TTL', here)
if lives < 0 or here == KEYS[1] and lives < tonumber(ARGV[2]) then
    redis.call('EXPIRE', here, ARGV[2])
end
-- The entry in the other hash would be visible again once this hash has expired.
if here == KEYS[2] and #old > 0 then
    redis.call('HDEL', KEYS[1], unpack(old))
end
return {#numbers, kept, 0}
