#!lua
-- Makes writes keep an index from now on, or says that it is filled. That is not believed where writes do not keep it: a failover has
-- forgotten that they should, while it was filled, and it begins anew. Nor is it believed on another server, see server.lua: that may have
-- forgotten what was put into the index, or that it was begun, before another process has begun it.
--
-- KEYS  see begin.lua
-- ARGV  see begin.lua; then the index, as kind/field; then nothing, or what this returned when it was begun to be filled
--
-- Returns how many writes did not keep the indexes so far, and what counters go on from, 0 for nothing: another number on each server.

local name, missed, server = args[1], args[2], args[3]
if not (' ' .. indexes):find(' ' .. name .. ' ', 1, true) then
  indexes = indexes .. name .. ' '
  own()
elseif missed and server == (least or 0) then
  at[name] = missed
  own()
end
return pack('kept', now, writes, writes - indexed, least or 0)
