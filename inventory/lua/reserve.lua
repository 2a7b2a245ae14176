#!lua
-- Decides one batch of attempts for one item: who gets units, and under which number.
-- Set-wise: the users' marks are read with one HMGET, winners are counted in Lua and written with one HSET each into
-- users and holds, so that an attempt costs a few table operations and not several Redis commands.
--
-- KEYS[1] state   KEYS[2] users   KEYS[3] holds   KEYS[4] gone   KEYS[5] buyers, only with one item per activity
-- ARGV[1] epoch that the caller knows
-- ARGV[2] item id
-- ARGV[3] n, attempts in this batch, at most 512
-- ARGV[4 .. 3+n]   users
-- ARGV[4+n] the field of users and buyers that is not a user, see WeightField in stock/item.go
-- ARGV[5+n .. 4+2n] marks: the number's 32 hex digits, followed by ":<quantity>" unless it is 1; for an attempt with
--         a payment window shorter than the sale's ":<quantity>:<seconds>", even if the quantity is 1
--
-- Returns {gate, epoch, remaining, committed, total, seq, persisted, rel, ms until opening, shards of the item,
-- verdicts, extra…}.
--   gate: 0 open, 1 fenced, 2 not started, 3 ended, 4 paused; only an open gate has verdicts. If one of the keys was
--   lost and the state was not, the call fences the item for a Load.
--   verdicts: one letter per attempt, in order: g granted, r repeated, b already bought, n not enough, s sold out,
--   h all held, f finished, l over limit. Grants are numbered upwards to seq in the order of the letters.
--   extra: for each r its grant's sequence (0: its order exists), for each b the number held, in order; while that
--   number's order does not exist yet, followed by ":<quantity>:<sequence>" of its grant, and ":<seconds>" if its
--   payment window is shorter.
-- Errors: out of memory refuses the call before anything is written.
-- Cost: O(n); a full batch takes about half a millisecond.

local state = redis.call('HMGET', KEYS[1], 'epoch', 'run_id', 'fenced', 'opens_ms', 'closes_ms', 'paused',
    'remaining', 'committed', 'total', 'seq', 'persisted', 'rel', 'limit', 'unlimited', 'shards')
if not state[1] then
    return {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, ''}
end
local remaining, committed, total = tonumber(state[7]), tonumber(state[8]), tonumber(state[9])
local seq, persisted, rel = tonumber(state[10]), tonumber(state[11]), tonumber(state[12])
local shards = tonumber(state[15] or 1)
local function closed(gate, wait)
    return {gate, tonumber(state[1]), remaining, committed, total, seq, persisted, rel, wait, shards, ''}
end

-- A restarted or failed-over Redis may have lost grants that it made: its run id differs from the one that Load
-- recorded, and nothing is decided until Load has run again.
local info = redis.call('INFO', 'server')
local _, at = string.find(info, 'run_id:', 1, true)
if state[1] ~= ARGV[1] or state[3] ~= '0' or string.sub(info, at + 1, at + #state[2]) ~= state[2] then
    return closed(1, 0)
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now < tonumber(state[4]) then
    return closed(2, tonumber(state[4]) - now)
end
if now >= tonumber(state[5]) then
    return closed(3, 0)
end
if state[6] == '1' then
    return closed(4, 0)
end

local limit, unlimited = tonumber(state[13]), state[14] == '1'
local n = tonumber(ARGV[3])
local sub = string.sub
local marks = redis.call('HMGET', KEYS[2], unpack(ARGV, 4, 4 + n))
local buyers
if KEYS[5] then
    buyers = redis.call('HMGET', KEYS[5], unpack(ARGV, 4, 4 + n))
end
-- A key that was lost alone would look like one without holders. The hashes have one field that nothing removes, and
-- holds has one more for each grant without an order.
if not marks[n + 1] or buyers and not buyers[n + 1] or redis.call('HLEN', KEYS[3]) ~= seq - persisted + 1 then
    redis.call('HSET', KEYS[1], 'fenced', state[1] + 1)
    return closed(1, 0)
end

-- There are few or no tombstones during a rush, so they are only looked up if there are any.
local gone
if redis.call('EXISTS', KEYS[4]) == 1 then
    local numbers = {}
    for i = 1, n do
        numbers[i] = sub(ARGV[4 + n + i], 1, 32)
    end
    gone = redis.call('ZMSCORE', KEYS[4], unpack(numbers))
end

-- A grant's sequence is written as hundreds and two digits from this list: formatting every number takes Lua longer
-- than all the rest of a grant.
local digits = {[0] = '00', '01', '02', '03', '04', '05', '06', '07', '08', '09',
    '10', '11', '12', '13', '14', '15', '16', '17', '18', '19', '20', '21', '22', '23', '24', '25', '26', '27', '28', '29',
    '30', '31', '32', '33', '34', '35', '36', '37', '38', '39', '40', '41', '42', '43', '44', '45', '46', '47', '48', '49',
    '50', '51', '52', '53', '54', '55', '56', '57', '58', '59', '60', '61', '62', '63', '64', '65', '66', '67', '68', '69',
    '70', '71', '72', '73', '74', '75', '76', '77', '78', '79', '80', '81', '82', '83', '84', '85', '86', '87', '88', '89',
    '90', '91', '92', '93', '94', '95', '96', '97', '98', '99'}
local low = (seq + 1) % 100
local high = ':' .. (seq + 1 - low) / 100
local granted_at = ':' .. now

-- The grant that a hold records: quantity and sequence, then the shorter window if there is one.
local function waiting(hold)
    local grant, within = string.match(hold or '', '^%-?%d+(:%d+:%d+):%d+(.*)$')
    return grant and grant .. within or ''
end

local verdicts, extra = {}, {}
local taken = {}                        -- what this batch granted: user → index of the mark in users
local users, holds, bought = {}, {}, {} -- field, value, … of the HSETs
local k = 0
for i = 1, n do
    local user, mark = ARGV[3 + i], ARGV[4 + n + i]
    local held = marks[i] or users[taken[user]] or (buyers and buyers[i])
    if held then
        local number, other = sub(mark, 1, 32), sub(held, 1, 32)
        if other == number and sub(held, -2) ~= ':x' then
            verdicts[i] = 'r'
            local place = 0
            if taken[user] then
                place = seq + taken[user] / 2
            else
                local hold = redis.call('HGET', KEYS[3], number)
                place = hold and string.match(hold, '^%-?%d+:%d+:(%d+):') or 0
            end
            extra[#extra + 1] = tostring(place)
        elseif other == number or gone and gone[i] then
            verdicts[i] = 'f'
        else
            verdicts[i] = 'b'
            local open = ''
            if taken[user] then
                open = waiting(holds[taken[user]])
            elseif marks[i] then
                open = waiting(redis.call('HGET', KEYS[3], other))
            end
            extra[#extra + 1] = other .. open
        end
    elseif gone and gone[i] then
        verdicts[i] = 'f'
    else
        local number, quantity, units, stamp = mark, ':1', 1, granted_at
        if #mark > 32 then
            local window = string.find(mark, ':', 34, true)
            if window then
                -- Only the hold keeps it, in case the grant has to be published again.
                stamp = granted_at .. sub(mark, window)
                mark = sub(mark, 1, window - 1)
            end
            number, quantity = sub(mark, 1, 32), sub(mark, 33)
            units = tonumber(sub(mark, 34))
            if units == 1 then
                mark = number
            end
        end
        if units > limit then
            verdicts[i] = 'l'
        elseif unlimited or units <= remaining then
            verdicts[i] = 'g'
            remaining = remaining - units
            k = k + 2
            taken[user] = k
            users[k - 1], users[k] = user, mark
            holds[k - 1], holds[k] = number, user .. quantity .. high .. digits[low] .. stamp
            low = low + 1
            if low == 100 then
                low = 0
                high = ':' .. (seq + k / 2 + 1) / 100
            end
            if buyers then
                bought[k - 1], bought[k] = user, number .. ':' .. ARGV[2]
            end
        elseif remaining > 0 then
            verdicts[i] = 'n'
        elseif committed >= total then
            verdicts[i] = 's'
        else
            verdicts[i] = 'h'
        end
    end
end

if k > 0 then
    seq = seq + k / 2
    redis.call('HSET', KEYS[2], unpack(users))
    redis.call('HSET', KEYS[3], unpack(holds))
    if buyers then
        redis.call('HSET', KEYS[5], unpack(bought))
    end
    redis.call('HSET', KEYS[1], 'remaining', remaining, 'seq', seq)
end
return {0, tonumber(state[1]), remaining, committed, total, seq, persisted, rel, 0, shards, table.concat(verdicts), unpack(extra)}
