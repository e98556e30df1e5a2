#!lua flags=allow-oom
-- Removes documents whose retention has ended. Each is looked at again: a write may have come in between.
--
-- KEYS  see begin.lua; then the ends, the tenants; then for each document: it, the IDs and the indexes of its kind and tenant
-- ARGV  see begin.lua; then for each document: its ID
--
-- Returns how many were removed.

local removed = 0
redis.call('ZCARD', KEYS[3]) -- that it can be written to
for i = 4, #KEYS, 3 do
  local key, ids, by, id = KEYS[i], KEYS[i + 1], KEYS[i + 2], take()
  local fields = fieldsOf(by)
  local member = key:match('^%b{}:doc:(.*)$')
  local over = redis.call('ZSCORE', KEYS[2], member)
  if over and tonumber(over) <= now then
    local list = redis.call('HGETALL', key)
    redis.call('ZSCORE', ids, id)
    redis.call('ZCARD', by)
    for _, field in ipairs(fields) do
      local stored = redis.call('HGET', key, field)
      if isText(stored) then
        redis.call('ZREM', by, entry(field, stored, id))
      end
    end
    for from = 1, #list, 2 do
      redis.call('HDEL', key, list[from])
    end
    redis.call('ZREM', KEYS[2], member)
    redis.call('ZREM', ids, id)
    if redis.call('ZCARD', ids) == 0 then
      redis.call('ZREM', KEYS[3], (ids:match('^%b{}:ids:(.*)$')))
    end
    removed = removed + 1
  end
end
if removed > 0 then
  count()
end
return {'pruned', at, string.format('%.0f', writes), removed}
