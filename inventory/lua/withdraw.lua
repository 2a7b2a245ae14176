#!lua
-- Takes units that no user holds off the sale, for an operator who moves them to the backup, lowers the stock or writes
-- units off. The caller has locked the stock row in Postgres and passes its revision and plan, so there is one
-- withdrawal at a time: total falls below the plan of that revision by what it took. Repeating it, or doing it after a
-- caller that died, therefore takes nothing twice. The next revision carries the new plan; if it does not contain the
-- withdrawal, change.lua returns the units.
--
-- KEYS[1] state
-- ARGV[1] rev   ARGV[2] units planned for sale at that rev   ARGV[3] units to take in all, 0 to return what was taken
--
-- Returns {code, units taken in all}.
--   code: 0 done, 1 no state, 2 fenced, or another Redis than the one that was loaded, 3 another revision.
-- Cost: O(1).

local state = redis.call('HMGET', KEYS[1], 'run_id', 'fenced', 'rev', 'total', 'remaining', 'retaken')
if not state[1] then
    return {1, 0}
end
if state[2] ~= '0' or not string.find(redis.call('INFO', 'server'), 'run_id:' .. state[1], 1, true) then
    return {2, 0}
end
if state[3] ~= ARGV[1] then
    return {3, 0}
end
local taken = ARGV[2] + (state[6] or 0) - state[4]
local more = math.min(ARGV[3] - taken, math.max(tonumber(state[5]), 0))
if more ~= 0 then
    redis.call('HINCRBY', KEYS[1], 'total', -more)
    redis.call('HINCRBY', KEYS[1], 'remaining', -more)
end
if more < 0 then
    redis.call('HINCRBY', KEYS[1], 'rel', 1)
end
return {0, taken + more}
