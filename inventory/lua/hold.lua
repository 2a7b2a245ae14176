#!lua flags=no-writes
-- Returns what one user holds of an item, and how far the queue has moved.
--
-- KEYS[1] state   KEYS[2] users   KEYS[3] holds
-- ARGV[1] epoch that the caller knows   ARGV[2] user
--
-- Returns {code, epoch, persisted, mark, sequence}.
--   code: 0 holds, 1 no state, 2 does not hold, 3 another epoch (to be repeated with the one returned), 4 unknown
--   now: there is no mark, but the item is being loaded or Redis was restarted, so that a missing mark proves
--   nothing; or there is one without an order row, but Redis was restarted, and the next Load brings it to its end.
--   mark: "<number>[:<quantity>][:c]", see reserve.lua and commit.lua; sequence: 0 if the order row exists.
-- Cost: O(1).

local state = redis.call('HMGET', KEYS[1], 'epoch', 'fenced', 'persisted', 'run_id')
if not state[1] then
    return {1, 0, 0, '', 0}
end
local epoch, persisted = tonumber(state[1]), tonumber(state[3])
if state[1] ~= ARGV[1] then
    return {3, epoch, persisted, '', 0}
end
local same = string.find(redis.call('INFO', 'server'), 'run_id:' .. state[4], 1, true)
local mark = redis.call('HGET', KEYS[2], ARGV[2])
if mark and string.sub(mark, -2) ~= ':x' then
    local hold = redis.call('HGET', KEYS[3], string.sub(mark, 1, 32))
    if not hold then
        return {0, epoch, persisted, mark, 0}
    elseif same then
        return {0, epoch, persisted, mark, tonumber(string.match(hold, '^%-?%d+:%d+:(%d+):'))}
    end
    return {4, epoch, persisted, '', 0}
end
if state[2] ~= '0' or not same then
    return {4, epoch, persisted, '', 0}
end
return {2, epoch, persisted, '', 0}
