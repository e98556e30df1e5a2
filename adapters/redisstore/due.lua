#!lua flags=allow-oom
-- Finds members of an index. For its flags see read.lua.
--
-- KEYS  see begin.lua; then the set of indexes
-- ARGV  see begin.lua; then the index, as kind/field; then the most members to return, and their range, as ZRANGE BYLEX has it
--
-- Returns 1 if all writes have kept the index since it was filled, else 0; the members.

local filled = redis.call('HGET', KEYS[1], 'at:' .. take())
local most, low, high = take(), take(), take()
return {'read', at, string.format('%.0f', writes), filled == string.format('%.0f', writes - indexed) and 1 or 0,
  redis.call('ZRANGE', KEYS[2], low, high, 'BYLEX', 'LIMIT', 0, most)}
