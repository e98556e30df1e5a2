#!lua flags=allow-oom
-- Finds out whether the documents are on another server than when a connection was made the last time: one that took the place of
-- another, or was started again, may have lost what was acknowledged. Then no counter goes on from what it has here, but from the
-- time on, which is above everything that was ever granted. The first script of each connection: no other runs before.
--
-- KEYS  what the store keeps of itself; the server on which the documents are
-- ARGV  the time in milliseconds, empty for the server's
--
-- Returns ok, or unknown where the server does not say which it is.

$SERVER
local server = serverOf()
if not server then
  return 'unknown'
end
local stored = redis.call('GET', KEYS[1])
if stored and redis.call('GET', KEYS[2]) ~= server then
  local now = tonumber(ARGV[1])
  if not now then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  end
  local generation, writes, floor, indexed, indexes, at, writers, least = cmsgpack.unpack(stored)
  if type(generation) ~= 'string' or type(floor) ~= 'number' then
    return redis.error_reply('DAMAGED ' .. KEYS[1])
  end
  least = math.max(least or 0, now * 1000)
  floor = math.max(floor, least)
  redis.call('MSET', KEYS[1], cmsgpack.pack(generation, writes, floor, indexed, indexes, at, writers, least), KEYS[2], server)
end
return 'ok'
