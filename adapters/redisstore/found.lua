-- Reads a document and finds out whether its write can be done: key, ids and by are those of write.lua.
local new = not stored
local fine, f, ends = pcall(unpack, stored or '\144\194') -- no fields, and false
if not fine or type(f) ~= 'table' or type(ends) ~= 'number' and ends ~= false then
  return redis.error_reply('DAMAGED ' .. key)
end
local listed = ends
ends = ends or 0
if not $COND then
  $REFUSED
end
local damaged = false
$BEFORE
if damaged then
  $DAMAGED
end
local keep
if indexes ~= '' then
$INDEX
  local fields, before = fieldsOf(by), {}
  if #fields > 0 then
    call('ZCARD', by)
  end
  for _, field in ipairs(fields) do
    before[field] = f[field]
  end
  keep = function()
    for _, field in ipairs(fields) do
      reindex(by, field, id, before[field], f[field])
    end
  end
end
