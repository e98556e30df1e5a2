#!lua flags=no-writes
-- Returns which commands of the other scripts this user may not run on the store's keys. A user that may run only some of
-- them must not begin: a script that fails half-way is not undone.
--
-- KEYS  a document, the IDs of a kind and tenant, the store's own hash, the ends, the tenants, the indexes of a kind
--       and tenant
--
-- Returns the names of the commands.

local forbidden, named = {}, {}
local commands = {
  {'TIME'}, {'HGETALL', KEYS[1]}, {'HSET', KEYS[1], 'f', 'v'}, {'HDEL', KEYS[1], 'f'}, {'HGET', KEYS[1], 'f'}, {'HMGET', KEYS[1], 'f'}, {'HLEN', KEYS[1]}, {'HGET', KEYS[3], 'f'}, {'HMGET', KEYS[3], 'f'}, {'HSETNX', KEYS[3], 'f', 'v'}, {'HINCRBY', KEYS[3], 'f', '1'},
}
for i = 2, 6 do
  if i ~= 3 then
    for _, command in ipairs({
      {'ZSCORE', KEYS[i], 'm'}, {'ZADD', KEYS[i], '0', 'm'}, {'ZREM', KEYS[i], 'm'}, {'ZCARD', KEYS[i]}, {'ZRANGE', KEYS[i], '-', '+', 'BYLEX'},
    }) do
      commands[#commands + 1] = command
    end
  end
end
for _, command in ipairs(commands) do
  local name = command[1]
  if redis.acl_check_cmd and not named[name] and not redis.acl_check_cmd(unpack(command)) then
    named[name] = true
    forbidden[#forbidden + 1] = name
  end
end
return forbidden
