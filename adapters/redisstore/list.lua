#!lua flags=allow-oom
-- Finds the IDs of one kind and tenant, in the order of their bytes. For its flags see read.lua.
--
-- KEYS  the IDs of the kind and tenant
-- ARGV  the time in milliseconds, empty for the server's; the range, as ZRANGE BYLEX has it; the most IDs to return
--
-- Returns the time and the IDs.

local at = ARGV[1]
if at == '' then
  local time = redis.call('TIME')
  at = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
end
return {at, redis.call('ZRANGE', KEYS[1], ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, ARGV[4])}
