-- What scripts begin with that keep indexes, behind begin.lua. An index holds the documents of a kind that have text in a field, in
-- the order of that text. All indexes of a kind and tenant are one sorted set, whose members are
--
--   field 0 text 0 1 ID        a 0 in the text is 0 255, so that the order of members is that of texts, then of IDs
--
-- with the score 0. The store's own hash says which fields have one (indexes: kind/field, each with a blank behind it), how many
-- writes kept them (indexed), and for each how many did not when it was filled (at:kind/field).

local function isText(stored)
  return stored and stored:sub(1, 2) == 's:'
end

local function entry(field, stored, id)
  return field .. '\0' .. stored:sub(3):gsub('%z', '\0\255') .. '\0\1' .. id
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

