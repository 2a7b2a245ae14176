-- Gives users their turns at one item, and counts the turns that have come, at the item's admission rate.
--
-- KEYS[1] line: issued, the last turn given; reached, the last that has come; at, when that was counted; rest, what
--         the count left over, in millionths of a turn; now_in, 2 or 3, the key that turns are written to; since when
-- KEYS[2], KEYS[3] turns: user → turn, written in turns for a minute each. A user who asks stays in the current one.
-- ARGV[1] now in Unix µs, set by tests; 0 uses the server's TIME
-- ARGV[2] rate: turns that come in a second
-- ARGV[3] most turns that may be still to come; a user beyond gets none
-- ARGV[4] n, users whose turns are used up
-- ARGV[5 .. 4+n] those users
-- ARGV[5+n …]    users who ask for their turns, at most 512, as are those before
--
-- Returns {issued, reached, turn…}: one turn for each user who asks, 0 for none.
-- Errors: out of memory refuses the call before anything is written.
-- Cost: O(users); three HMGET, a few writes.
local now, rate, most, used = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local generation, forgotten, longest = 60000000, 120, 2000000 -- µs, s, µs

-- What came while no one asked for two seconds, because Redis or every instance was away, is not made up for: their
-- shoppers would come all at once. Nor is a clock that was set back waited for.
local burst = math.floor(rate / 10)
if rate > 0 and burst == 0 then
  burst = 1
end
local issued, reached, rest, current, since = 0, burst, 0, 2, now
local line = redis.call('HMGET', KEYS[1], 'issued', 'reached', 'at', 'rest', 'now_in', 'since')
if line[1] then
  issued, current, since = tonumber(line[1]), tonumber(line[5]), tonumber(line[6])
  local at = tonumber(line[3])
  if now < at and at - now < longest then
    now = at -- a little behind: what was counted is not counted again
  end
  local due = tonumber(line[4]) + math.min(math.max(now - at, 0), longest) * rate
  reached, rest = tonumber(line[2]) + math.floor(due / 1000000), due % 1000000
  if reached >= issued + burst then -- a tenth of a second's worth is all that an empty line saves up
    reached, rest = issued + burst, 0
  end
else
  redis.call('UNLINK', KEYS[2], KEYS[3])
end
if now - since >= generation or now < since then
  current, since = 5 - current, now
  redis.call('UNLINK', KEYS[current])
end

if used > 0 then
  redis.call('HDEL', KEYS[2], unpack(ARGV, 5, 4 + used))
  redis.call('HDEL', KEYS[3], unpack(ARGV, 5, 4 + used))
end
local answer = {issued, reached}
if #ARGV > 4 + used then
  local here = redis.call('HMGET', KEYS[current], unpack(ARGV, 5 + used))
  local before = redis.call('HMGET', KEYS[5 - current], unpack(ARGV, 5 + used))
  local given, write = {}, {}
  for i = 1, #here do
    local user = ARGV[4 + used + i]
    local turn = tonumber(here[i] or before[i] or given[user] or 0)
    if turn == 0 and issued - reached < most then
      issued = issued + 1
      turn = issued
    end
    if turn > 0 and not here[i] then
      given[user] = turn
      write[#write + 1], write[#write + 2] = user, turn
    end
    answer[2 + i] = turn
  end
  if #write > 0 then
    redis.call('HSET', KEYS[current], unpack(write))
    redis.call('EXPIRE', KEYS[current], forgotten)
  end
end
answer[1] = issued
redis.call('HSET', KEYS[1], 'issued', issued, 'reached', reached, 'at', string.format('%.0f', now), 'rest', rest,
    'now_in', current, 'since', string.format('%.0f', since))
redis.call('EXPIRE', KEYS[1], forgotten)
return answer
