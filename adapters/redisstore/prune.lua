#!lua flags=allow-oom
-- Removes documents whose retention has ended. Each is looked at again: a write may have come in between. What another program has put in the
-- place of one, or of its index, is left there, and has no retention any more, so that it does not come first again in each later call. A document
-- that says a later end itself gets that one.
--
-- KEYS  see begin.lua; then the ends, the tenants; then for each document: it, the IDs and the indexes of its kind and tenant
-- ARGV  see begin.lua; then for each document: its ID; then members of the ends that name no document
--
-- Returns how many were removed; the members of the ends that were taken off.

local removed, damaged = 0, {}
call('ZCARD', KEYS[3]) -- that it can be written to
for i = 4, #KEYS, 3 do
  local key, ids, by, id = KEYS[i], KEYS[i + 1], KEYS[i + 2], args[(i - 1) / 3]
  local member = key:match('^%b{}:doc:(.*)$')
  local over = call('ZSCORE', KEYS[2], member)
  local due = over and tonumber(over) <= now
  local fine, ends, doc = true
  if due then
    fine, ends, doc = pcall(read, key)
    fine = fine and pcall(call, 'ZSCORE', ids, id) and pcall(call, 'ZCARD', by)
  end
  if not fine then
    call('ZREM', KEYS[2], member)
    damaged[#damaged + 1] = member
  elseif due and doc and (not ends or ends == 0) then
    call('ZREM', KEYS[2], member)
  elseif due and doc and ends > now then
    call('ZADD', KEYS[2], string.format('%.0f', ends), member)
  elseif due then
    for _, field in ipairs(fieldsOf(by)) do
      reindex(by, field, id, doc and doc[field], nil)
    end
    call('GETDEL', key)
    call('ZREM', KEYS[2], member)
    call('ZREM', ids, id)
    if call('ZCARD', ids) == 0 then
      call('ZREM', KEYS[3], (ids:match('^%b{}:ids:(.*)$')))
    end
    removed = removed + 1
  end
end
for i = (#KEYS - 3) / 3 + 1, #args do
  call('ZREM', KEYS[2], args[i])
  damaged[#damaged + 1] = args[i]
end
if removed > 0 then
  count()
end
return pack('pruned', now, writes, removed, damaged)
