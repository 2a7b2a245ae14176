-- Lets a lock last longer, unless it is another's by now.
--
-- KEYS[1]  the lock
-- ARGV[1]  the holder's token
-- ARGV[2]  how long it lasts from now on, milliseconds
--
-- Returns 1 when it is the holder's, else 0. Cost: O(1). One key, so one slot.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
