#!lua flags=allow-oom
-- Finds members of a sorted set: by their bytes, or those up to the time. For its flags see read.lua.
--
-- KEYS  see begin.lua; then the set
-- ARGV  see begin.lua; then the most members to return; then the range, as ZRANGE BYLEX has it, or nothing for those whose
--       score is not above the time
--
-- Returns the members.

local most, low, high = take(), take(), take()
local found
if low then
  found = redis.call('ZRANGE', KEYS[2], low, high, 'BYLEX', 'LIMIT', 0, most)
else
  found = redis.call('ZRANGE', KEYS[2], '-inf', at, 'BYSCORE', 'LIMIT', 0, most)
end
return {'read', at, string.format('%.0f', writes), found}
