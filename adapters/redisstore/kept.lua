#!lua
-- Makes writes keep an index from now on, or says that it is filled. That is not believed where writes do not keep it: a failover has
-- forgotten that they should, while it was filled, and it begins anew.
--
-- KEYS  see begin.lua
-- ARGV  see begin.lua; then the index, as kind/field; then nothing, or how many writes did not keep the indexes when it was begun
--       to be filled
--
-- Returns how many writes did not keep the indexes so far.

local name, missed = args[1], args[2]
if not (' ' .. indexes):find(' ' .. name .. ' ', 1, true) then
  indexes = indexes .. name .. ' '
  own()
elseif missed then
  at[name] = missed
  own()
end
return pack('kept', now, writes, writes - indexed)
