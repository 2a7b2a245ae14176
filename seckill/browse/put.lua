-- Replaces a session's view, unless a newer one is there already.
--
-- KEYS[1]  the session's hash
-- ARGV[1]  revision of the activity that the view shows
-- ARGV[2]  when the hash may be forgotten, Unix ms
-- ARGV[3…] field, value, field, value, …
--
-- Returns 1 when written, 0 when a newer view is kept.
-- Cost: O(fields). One key, so one slot.
local have = redis.call('HGET', KEYS[1], 'rev')
if have and tonumber(have) > tonumber(ARGV[1]) then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'rev', ARGV[1], unpack(ARGV, 3))
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
return 1
