#!lua flags=allow-oom
-- Finds members of an index. For its flags see read.lua.
--
-- KEYS  see begin.lua; then the set of indexes
-- ARGV  see begin.lua; then the index, as kind/field; then the most members to return, and their range, as ZRANGE BYLEX has it
--
-- Returns whether all writes have kept the index since it was filled; the members.

return pack('read', now, writes, at[args[1]] == writes - indexed, call('ZRANGE', KEYS[2], args[3], args[4], 'BYLEX', 'LIMIT', 0, args[2]))
