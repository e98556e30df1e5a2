#!lua
-- Makes writes keep an index from now on, or says that it is filled.
--
-- KEYS  see begin.lua
-- ARGV  see begin.lua; then the index, as kind/field; then nothing, or how many writes did not keep the indexes when it was begun
--       to be filled
--
-- Returns how many writes did not keep the indexes so far.

local name, missed = take(), take()
if missed then
  redis.call('HSET', KEYS[1], 'at:' .. name, missed)
elseif not (' ' .. indexes):find(' ' .. name .. ' ', 1, true) then
  redis.call('HSET', KEYS[1], 'indexes', indexes .. name .. ' ')
end
return {'kept', at, string.format('%.0f', writes), string.format('%.0f', writes - indexed)}
