#!lua flags=allow-oom
-- Removes members of an index whose documents do not have that text any more: a program of others changed them, or a version that
-- keeps no index. Each is looked at again: a write may have come in between.
--
-- KEYS  see begin.lua; then the set of indexes; then the documents
-- ARGV  see begin.lua; then the field; then for each document: its ID, the member
--
-- Returns nothing more.

local field = take()
for i = 3, #KEYS do
  local id, member = take(), take()
  local stored = redis.call('HGET', KEYS[i], field)
  if not isText(stored) or entry(field, stored, id) ~= member then
    redis.call('ZREM', KEYS[2], member)
  end
end
return {'tidied', at, string.format('%.0f', writes)}
