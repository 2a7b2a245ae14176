-- Decides takes one after the other. A take is one unit of each of its rules for
-- their subjects, or nothing at all (GCRA).
--
-- KEYS     for each take and rule the subject's theoretical arrival time, Unix µs;
--          a missing key counts as past
-- ARGV[1]  now in Unix µs, set by tests; 0 uses the server's TIME
-- ARGV[2…] for each take: its number of rules, then for each rule its interval in
--          µs and by how many intervals the time may lie ahead
--
-- Returns for each take: 1 taken | 0 refused, then for each rule how far its time
-- lies ahead of now in µs, 0 if it does not.
-- Errors: SET's error when memory is full; earlier takes are then written.
-- Cost: O(rules), at most one GET and one SET each. All keys share one slot.
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2] -- about 2^51: whole in a double until 2255
end
local answer = {}
local key, arg = 0, 2 -- the take's: before its first key, and its number of rules
while arg <= #ARGV do
  local rules = tonumber(ARGV[arg])
  local taken = 1
  local before, after = {}, {}
  for i = 1, rules do
    local interval = tonumber(ARGV[arg + 2 * i - 1])
    before[i] = math.max(tonumber(redis.call('GET', KEYS[key + i]) or '0'), now)
    after[i] = before[i] + interval
    if after[i] - now > interval * ARGV[arg + 2 * i] then
      taken = 0
    end
  end
  answer[#answer + 1] = taken
  for i = 1, rules do
    if taken == 1 then
      -- The key expires when its quota is full, rounded up to whole milliseconds.
      redis.call('SET', KEYS[key + i], string.format('%.0f', after[i]), 'PX', math.ceil((after[i] - now) / 1000))
      answer[#answer + 1] = after[i] - now
    else
      answer[#answer + 1] = before[i] - now
    end
  end
  key, arg = key + rules, arg + 2 * rules + 1
end
return answer
