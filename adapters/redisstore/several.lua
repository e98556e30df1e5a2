-- What stands in write.lua where it finds out what is there, if there are several writes, a deletion, or more values than Lua has local
-- variables for. docs, its last argument, has a list for each write: the number of its shape among those of these writes, its ID, and what
-- differs from write to write. A shape is a function, which returns one that carries the write out.
local refused, damage, changes = {}, nil, {}
call('ZCARD', KEYS[2]) -- that they can be written to
call('ZCARD', KEYS[3])
local shapes = {$SHAPES}
for i, v in ipairs(docs) do
  local change = shapes[v[1]](i, v, v[2], KEYS[3 * i + 1], KEYS[3 * i + 2], KEYS[3 * i + 3])
  if type(change) == 'table' then
    return change -- an error
  end
  changes[i] = change
end
if #refused > 0 then
  return pack('refused', now, writes) .. table.concat(refused)
elseif damage then
  return damage
end
