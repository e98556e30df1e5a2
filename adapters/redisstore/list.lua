#!lua flags=allow-oom
-- Finds members of a sorted set: by their bytes, or those up to the time. For its flags see read.lua.
--
-- KEYS  see begin.lua; then the set
-- ARGV  see begin.lua; then the most members to return; then the range, as ZRANGE BYLEX has it, or nothing for those whose
--       score is not above the time
--
-- Returns the members.

local found
if args[2] then
  found = call('ZRANGE', KEYS[2], args[2], args[3], 'BYLEX', 'LIMIT', 0, args[1])
else
  found = call('ZRANGE', KEYS[2], '-inf', string.format('%.0f', now), 'BYSCORE', 'LIMIT', 0, args[1])
end
return pack('read', now, writes, found)
