#!lua
-- A compiled write: shape.go fills in what begins with a $. Much is in line, because a function takes time to make, each time.
--
-- KEYS  what the store keeps of itself, the ends, the tenants, the document, the IDs of its kind and tenant, the indexes of its kind and tenant
-- ARGV  one text, as MessagePack: the time in milliseconds, nil for the server's; the generation that the caller found when it opened the
--       store; the most writes that it knows of; the store's name and the number of its latest write; the ID; then what differs from write
--       to write, in the order of the shape
--
-- Returns what write.lua does, and of a write that says what it wants returned the values of those fields that its caller does not know, after
-- the number of writes. It keeps to its order, too: what can fail comes before the first change.

local call, pack, unpack, type = redis.call, cmsgpack.pack, cmsgpack.unpack, type
local now, wanted, known, me, mine, id$ARGS = unpack(ARGV[1])
if not now then
  local time = call('TIME')
  local micro = tonumber(time[2])
  now = time[1] * 1000 + (micro - micro % 1000) / 1000
end
local both = call('MGET', KEYS[1], KEYS[4])
local generation, writes, floor, indexed, indexes, at, writers = unpack(both[1] or '')
$STOP
local new = not both[2]
if new then
  call('GET', KEYS[4]) -- that it is not of another type
end
local byte = string.byte
local fine, f, ends = pcall(unpack, both[2] or '\144\194') -- no fields, and false
if not fine or type(f) ~= 'table' or type(ends) ~= 'number' and ends ~= false then
  return redis.error_reply('DAMAGED ' .. KEYS[4])
end
local listed = ends
ends = ends or 0
$FUNCTIONS
local moment, MAX = now + 0.5, 9007199254740992 -- docstore.MaxInt: up to here Lua's numbers hold every whole number exactly
if not $COND then
  return pack('refused', now, writes, 1) .. (both[2] or pack(nil))
end
local damaged, started, reached = false, false, 0
$BEFORE
if damaged then
  return pack('damaged', now, writes, 1) .. (both[2] or pack(nil)) .. pack(floor)
end

if not listed then
  call('ZCARD', KEYS[5])
  call('ZCARD', KEYS[3])
end
local keep
if indexes ~= '' then
$INDEX
  local fields, before = fieldsOf(KEYS[6]), {}
  if #fields > 0 then
    call('ZCARD', KEYS[6])
  end
  for _, field in ipairs(fields) do
    before[field] = f[field]
  end
  keep = function()
    indexed = indexed + 1
    for _, field in ipairs(fields) do
      reindex(KEYS[6], field, id, before[field], f[field])
    end
  end
end
$CHANGES
$ENDS
if not listed then
  call('ZADD', KEYS[5], 0, id)
  call('ZADD', KEYS[3], 0, (KEYS[5]:match('^%b{}:ids:(.*)$')))
end
if keep then
  keep()
end
$WROTE
local after = pack(f, ends)
call('MSET', KEYS[1], pack(generation, writes, floor, indexed, indexes, at, writers), KEYS[4], after)
return pack('applied', now, writes$SHOWN
