-- What keeps indexes, behind text.lua. An index holds the documents of a kind that have text in a field, in
-- the order of that text. All indexes of a kind and tenant are one sorted set, whose members are
--
--   field 0 text 0 1 ID        a 0 in the text is 0 255, so that the order of members is that of texts, then of IDs
--
-- with the score 0. The store keeps which fields have one (indexes: kind/field, each with a blank behind it), how many
-- writes kept them (indexed), and for each how many did not when it was filled (at: by kind/field).

-- entry is the member of a document with this value in the field, nil if it is not text.
local function entry(field, value, id)
  local words = text(value)
  return words and field .. '\0' .. words:gsub('%z', '\0\255') .. '\0\1' .. id
end

-- reindex moves a document in an index, from a value to the next. What is there already is neither stored nor synced again.
local function reindex(by, field, id, before, after)
  local old, new = entry(field, before, id), entry(field, after, id)
  if old and old ~= new then
    redis.call('ZREM', by, old)
  end
  if new then
    redis.call('ZADD', by, 0, new) -- also what another program has removed
  end
end

-- fieldsOf are the fields with an index, of the kind that the set belongs to.
local function fieldsOf(by)
  local fields = {}
  if indexes ~= '' then
    local kind = by:match('^%b{}:by:([^/]*)/')
    for of, field in indexes:gmatch('([^/]+)/(%S+) ') do
      if of == kind then
        fields[#fields + 1] = field
      end
    end
  end
  return fields
end

