#!lua
-- Gives the store a generation if it has none: it means these documents as long as they are not lost as a whole.
--
-- KEYS  what the store keeps of itself; the server on which the documents are, see server.lua
-- ARGV  a generation
--
-- Returns the generation, the number of writes so far.

$SERVER
local own = redis.call('GET', KEYS[1])
if not own then
  own = cmsgpack.pack(ARGV[1], 0, 0, 0, '', {})
  redis.call('MSET', KEYS[1], own, KEYS[2], serverOf() or '')
end
local generation, writes = cmsgpack.unpack(own)
if type(generation) ~= 'string' or type(writes) ~= 'number' then
  return redis.error_reply('DAMAGED ' .. KEYS[1])
end
return {generation, string.format('%.0f', writes)}
