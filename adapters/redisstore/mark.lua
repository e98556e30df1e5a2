#!lua
-- Marks that a shard of these documents has lost writes that it had acknowledged, also one that has not: see stop.lua. It does nothing where
-- tokens were raised since.
--
-- KEYS  what the store keeps of itself
-- ARGV  how often tokens had been raised where writes were lost
--
-- Returns the generation, empty if there is none; the number of writes.

local generation, writes, floor, indexed, indexes, at, writers, least = cmsgpack.unpack(redis.call('GET', KEYS[1]) or '')
if generation == nil then
  return {'', '0'}
end
if type(generation) ~= 'string' or type(writes) ~= 'number' then
  return redis.error_reply('DAMAGED ' .. KEYS[1])
end
local name, raised = generation:gsub('^lost:', ''):match('^([^.]*)%.?(%d*)$')
local marked = 'lost:' .. name .. '.' .. ARGV[1]
if (tonumber(raised) or 0) <= tonumber(ARGV[1]) and generation ~= marked then
  generation = marked
  redis.call('SET', KEYS[1], cmsgpack.pack(generation, writes, floor, indexed, indexes, at, writers, least))
end
return {generation, string.format('%.0f', writes)}
