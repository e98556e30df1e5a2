#!lua flags=allow-oom
-- Reads documents, all of one instant. It changes nothing, and yet is not flagged no-writes, so that a replica,
-- whose documents may be old, rejects it.
--
-- KEYS  the documents
-- ARGV  the time in milliseconds, empty for the server's
--
-- Returns the time, and for each key a list of fields and values, empty if there is no document.

local at = ARGV[1]
if at == '' then
  local time = redis.call('TIME')
  at = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
end
local answer = {at}
for i, key in ipairs(KEYS) do
  answer[i + 1] = redis.call('HGETALL', key)
end
return answer
