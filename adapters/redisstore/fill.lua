#!lua
-- Puts documents into an index, each as it is now.
--
-- KEYS  see begin.lua; then the set of indexes; then the documents
-- ARGV  see begin.lua; then the field; then the IDs
--
-- Returns nothing more.

local field = take()
redis.call('ZCARD', KEYS[2])
for i = 3, #KEYS do
  local stored, id = redis.call('HGET', KEYS[i], field), take()
  if isText(stored) then
    redis.call('ZADD', KEYS[2], 0, entry(field, stored, id))
  end
end
return {'filled', at, string.format('%.0f', writes)}
