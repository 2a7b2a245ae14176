-- Writes revocations for instances that cannot read Postgres.
-- KEYS[1]  sorted set: revocation → when it was written, in microseconds of this server's TIME
-- ARGV[1]  how long an entry is kept, in microseconds
-- ARGV[2…] revocations
-- Returns the number of revocations in ARGV. Cost: O(log n) for each revocation that is written or has expired from the set.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], 'NX', string.format('%.0f', now), ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - ARGV[1]))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ARGV[1] / 1000))
return #ARGV - 1
