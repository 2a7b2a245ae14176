-- Takes one of each rule for its subject, or nothing at all (GCRA).
--
-- KEYS[i]     the subject's theoretical arrival time under rule i, Unix µs; a
--             missing key lies in the past
-- ARGV[1]     now in Unix µs, which tests own; 0 is the server's TIME
-- ARGV[2i]    rule i's interval in µs
-- ARGV[2i+1]  how many intervals rule i lets the time lie ahead
--
-- Returns {1 taken | 0 refused, then for each rule how far its time lies ahead of
-- now in µs, 0 when it does not}.
-- Errors: what SET says when memory is full; nothing is written then.
-- Cost: O(rules), at most one GET and one SET each. All keys share one slot.
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2] -- about 2^51: whole in a double until 2255
end
local taken = 1
local before, after = {}, {}
for i, key in ipairs(KEYS) do
  local interval = tonumber(ARGV[2 * i])
  before[i] = math.max(tonumber(redis.call('GET', key) or '0'), now)
  after[i] = before[i] + interval
  if after[i] - now > interval * ARGV[2 * i + 1] then
    taken = 0
  end
end
local answer = {taken}
for i, key in ipairs(KEYS) do
  if taken == 1 then
    -- The key ends with its quota full, rounded up to whole milliseconds.
    redis.call('SET', key, string.format('%.0f', after[i]), 'PX', math.ceil((after[i] - now) / 1000))
    answer[i + 1] = after[i] - now
  else
    answer[i + 1] = before[i] - now
  end
end
return answer
