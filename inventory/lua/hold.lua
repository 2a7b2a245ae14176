#!lua flags=no-writes
-- Returns what one user holds of an item, and how far the queue has moved.
--
-- KEYS[1] state   KEYS[2] users   KEYS[3] holds
-- ARGV[1] epoch that the caller knows   ARGV[2] user   ARGV[3] the field of both hashes that is neither a user nor a
--         number, see WeightField in stock/item.go
--
-- Returns {code, epoch, persisted, mark, sequence}.
--   code: 0 holds, 1 no state, 2 does not hold, 3 another epoch (to be repeated with the one returned), 4 unknown
--   now: there is no mark, but the item is being loaded, Redis was restarted or the hash is lost, so that a missing
--   mark proves nothing; or there is one without an order row, but Redis was restarted, and the next Load brings it to
--   its end; or the holds are lost, which say whether there is a row.
--   mark: "<number>[:<quantity>][:c]", see reserve.lua and commit.lua, with code 4 if there is one;
--   sequence: 0 if the order row exists.
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
local marks = redis.call('HMGET', KEYS[2], ARGV[2], ARGV[3])
local mark = marks[1]
if mark and string.sub(mark, -2) ~= ':x' then
    local holds = redis.call('HMGET', KEYS[3], string.sub(mark, 1, 32), ARGV[3])
    local hold = holds[1]
    if not hold and holds[2] then
        return {0, epoch, persisted, mark, 0}
    elseif hold and same then
        return {0, epoch, persisted, mark, tonumber(string.match(hold, '^%-?%d+:%d+:(%d+):'))}
    end
    return {4, epoch, persisted, mark, 0}
end
if state[2] ~= '0' or not same or not marks[2] then
    return {4, epoch, persisted, '', 0}
end
return {2, epoch, persisted, '', 0}
