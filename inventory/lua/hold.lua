#!lua flags=no-writes
-- Tells what one user holds of an item, and how far the queue has moved.
--
-- KEYS[1] state   KEYS[2] users   KEYS[3] holds
-- ARGV[1] epoch the caller believes in   ARGV[2] user
--
-- Returns {code, epoch, persisted, mark, sequence}.
--   code: 0 holds, 1 no state, 2 does not hold, 3 another epoch (to be repeated with the one returned), 4 no mark, but
--   the item is being loaded or Redis was restarted, so that a missing mark proves nothing.
--   mark: "<number>[:<quantity>][:c]", see reserve.lua and commit.lua; sequence: 0 when the order row exists.
-- Cost: O(1).

local state = redis.call('HMGET', KEYS[1], 'epoch', 'fenced', 'persisted', 'run_id')
if not state[1] then
    return {1, 0, 0, '', 0}
end
local epoch, persisted = tonumber(state[1]), tonumber(state[3])
if state[1] ~= ARGV[1] then
    return {3, epoch, persisted, '', 0}
end
local mark = redis.call('HGET', KEYS[2], ARGV[2])
if mark then
    local hold = redis.call('HGET', KEYS[3], string.sub(mark, 1, 32))
    return {0, epoch, persisted, mark, hold and tonumber(string.match(hold, '^%-?%d+:%d+:(%d+):')) or 0}
end
if state[2] ~= '0' or not string.find(redis.call('INFO', 'server'), 'run_id:' .. state[4], 1, true) then
    return {4, epoch, persisted, '', 0}
end
return {2, epoch, persisted, '', 0}
