#!lua
-- A compiled write: shape.go fills in what begins with a $. Everything is in line, because a function takes time to make, each time.
--
-- KEYS  the store's own hash, the ends, the tenants, the document, the IDs of its kind and tenant, the indexes of its kind and tenant
-- ARGV  the time in milliseconds, empty for the server's; the generation that the caller found when it opened the store; the most writes
--       that it knows of; the ID; then what differs from write to write, in the order of the shape
--
-- Returns what write.lua does, but whole numbers as numbers, and of a write that says what it wants returned the values of those fields that its
-- caller does not know, after the number of writes. It keeps to its order, too: what can fail comes before the first change.

local call, key, now = redis.call, KEYS[4], tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  local micro = tonumber(time[2])
  now = time[1] * 1000 + (micro - micro % 1000) / 1000
end
local own = call('HMGET', KEYS[1], 'generation', 'writes', 'indexes', 'floor')
if own[1] ~= ARGV[2] then
  return {'other', now, 0}
end
local writes, indexes = tonumber(own[2] or 0), own[3]
if writes < tonumber(ARGV[3]) then
  return {'back', now, writes}
end
$FUNCTIONS
local f = call('HMGET', key, $FIELDS)
$MOMENT
if not $COND then
  return {'refused', now, writes, 1, call('HGETALL', key)}
end
local damaged = false
$COUNTED
$BEFORE
if damaged then
  return {'damaged', now, writes, 1, call('HGETALL', key), tonumber(own[4] or 0)}
end

local listed = $LISTED
if not listed then
  call('ZCARD', KEYS[5])
  call('ZCARD', KEYS[3])
end
local kept
if indexes and indexes ~= '' then
$INDEX
  local fields, before = fieldsOf(KEYS[6]), {}
  if #fields > 0 then
    call('ZCARD', KEYS[6])
  end
  for i, field in ipairs(fields) do
    before[i] = call('HGET', key, field)
  end
  kept = function()
    call('HINCRBY', KEYS[1], 'indexed', '1')
    for i, field in ipairs(fields) do
      local after = call('HGET', key, field)
      if isText(before[i]) and before[i] ~= after then
        call('ZREM', KEYS[6], entry(field, before[i], ARGV[4]))
      end
      if isText(after) then
        call('ZADD', KEYS[6], 0, entry(field, after, ARGV[4]))
      end
    end
  end
end
$ENDS
if not listed then
  call('HSET', key, '_doc', '1') -- a hash without fields is no hash
  call('ZADD', KEYS[5], 0, ARGV[4])
  call('ZADD', KEYS[3], 0, (KEYS[5]:match('^%b{}:ids:(.*)$')))
end
$CHANGES
if kept then
  kept()
end
return {'applied', now, writes$SHOWN}
