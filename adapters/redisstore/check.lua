#!lua flags=no-writes
-- Returns which commands of the other scripts this user may not run on the store's keys. A user that may run only some of
-- them must not begin: a script that fails half-way is not undone.
--
-- KEYS  a document, the IDs of a kind and tenant, what the store keeps of itself, the ends, the tenants, the indexes of a kind
--       and tenant
--
-- Returns the names of the commands.

local forbidden, named = {}, {}
local commands = {
  {'TIME'}, {'GET', KEYS[1]}, {'SET', KEYS[1], 'v'}, {'GETDEL', KEYS[1]}, {'MGET', KEYS[3], KEYS[1]}, {'MSET', KEYS[3], 'v', KEYS[1], 'v'}, {'GET', KEYS[3]}, {'SET', KEYS[3], 'v'},
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
