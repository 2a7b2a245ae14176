-- Puts an order into the cache unless a version as new is there.
--
-- KEYS[1]  the order's cache entry
-- ARGV[1]  the entry, which begins with "o<version>:"
-- ARGV[2]  its version
-- ARGV[3]  lifetime in seconds
--
-- Returns  1 stored
--          0 left: the entry is of this version or a newer one
--         -1 out of memory: an older entry was deleted, so that readers ask Postgres instead of being told old news
-- Errors   whatever Redis refuses besides for lack of memory (read-only replica, disk error)
-- Cost     one GET, one SET
--
-- There is no shebang line on purpose: a script with flags is either refused as a whole when memory is short, and
-- could delete nothing then, or is allowed to grow beyond the limit.
local have = redis.call('GET', KEYS[1])
if have then
    local version = string.match(have, '^o(%d+):')
    if version and tonumber(version) >= tonumber(ARGV[2]) then
        return 0
    end
end
local set = redis.pcall('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
if set.err then
    if string.find(set.err, 'OOM', 1, true) then
        redis.call('DEL', KEYS[1])
        return -1
    end
    return redis.error_reply(set.err)
end
return 1
