-- Gives a lock back, unless it is another's by now.
--
-- KEYS[1]  the lock
-- ARGV[1]  the holder's token
--
-- Returns 1 when it was the holder's, else 0. Cost: O(1). One key, so one slot.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
