#!lua flags=no-writes
-- Returns which commands of the other scripts this user may not run on the store's keys. A user that may run only some of
-- them must not begin: a script that fails half-way is not undone.
--
-- KEYS  a document, the IDs of a kind and tenant
--
-- Returns the names of the commands.

local forbidden = {}
for _, command in ipairs({
  {'TIME'}, {'HGETALL', KEYS[1]}, {'HSET', KEYS[1], 'f', 'v'}, {'HDEL', KEYS[1], 'f'},
  {'ZSCORE', KEYS[2], 'id'}, {'ZADD', KEYS[2], '0', 'id'}, {'ZRANGE', KEYS[2], '-', '+', 'BYLEX'},
}) do
  if redis.acl_check_cmd and not redis.acl_check_cmd(unpack(command)) then
    forbidden[#forbidden + 1] = command[1]
  end
end
return forbidden
