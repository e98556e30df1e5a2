-- What every script on documents begins with. It stands behind the script's own first line.
--
-- KEYS  first the store's own hash: generation, writes, floor, and what index.lua says
-- ARGV  first the time in milliseconds, empty for the server's; then the generation that the caller found when it opened
--       the store, and the most writes that it knows of
--
-- Returns, and does nothing else, if this is not what the caller opened:
--   other   the time, 0      the generation is another, or there is none: another server, or one that was emptied
--   back    the time, the writes that the server knows of: it has lost some that it had acknowledged
-- All scripts return an outcome, the time, and the number of writes first.

local pos = 0
local function take()
  pos = pos + 1
  return ARGV[pos]
end

local now = tonumber(take())
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local at = string.format('%.0f', now)

local own = redis.call('HMGET', KEYS[1], 'generation', 'writes', 'floor', 'indexed', 'indexes')
if own[1] ~= take() then
  return {'other', at, '0'}
end
local writes, floor = tonumber(own[2] or 0), tonumber(own[3] or 0)
local indexed, indexes = tonumber(own[4] or 0), own[5] or ''
if writes < tonumber(take()) then
  return {'back', at, string.format('%.0f', writes)}
end

