#!lua flags=allow-oom
-- Reads documents, all of one instant. It changes nothing, and yet is not flagged no-writes, so that a replica,
-- whose documents may be old, rejects it.
--
-- KEYS  see begin.lua; then the documents
-- ARGV  see begin.lua
--
-- Returns for each key a list of fields and values, empty if there is no document.

local answer = {'read', at, string.format('%.0f', writes)}
for i = 2, #KEYS do
  answer[i + 2] = redis.call('HGETALL', KEYS[i])
end
return answer
