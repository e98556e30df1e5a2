#!lua
-- Applies writes if all of their conditions hold, in one step.
--
-- KEYS  see begin.lua; then the ends, the tenants; then for each write: its document, the IDs of its kind and tenant, the indexes of
--       its kind and tenant
-- ARGV  see begin.lua; then for each write:
--         its ID
--         its condition, as an operator and its operands: absent | has F | eq F V | le F V | any N … | all N … | not …
--         delete, and nothing else; or
--         how many milliseconds to keep the document, empty to leave that as it is
--         N, and N times a field and the value to set
--         N, and N times a field, the number to add, and 1 if it starts at the time where it is missing
--         N, and N fields to remove
--       A value is in its stored form; t:MS is the time of the write plus so many milliseconds, c:F the text that the field F
--       had before.
--
-- Returns an outcome, the time, the number of writes, and
--   applied   for each write the document after
--   refused   for each write whose condition does not hold: its number, the document found
--   damaged   the number of a write that cannot be done, the document found, the floor
-- A document is a list of fields and values, empty if there is none.
--
-- A script that fails half-way is not undone. Hence the order: first everything is read, and checked in full; a key of
-- another type ends the script there. Only then it writes.

local HEADROOM = 1000        -- see shape.lua
local CHUNK = 1000           -- arguments that go into one command: unpack is limited by Lua's stack

local function resolve(value)
  if value:sub(1, 2) == 't:' then
    return 's:' .. format(now + tonumber(value:sub(3)))
  end
  return value
end

-- holds evaluates the next condition, always to its end: what follows it must be found.
local function holds(doc)
  local op = take()
  if op == 'absent' then
    return doc == nil
  elseif op == 'not' then
    return not holds(doc)
  elseif op == 'any' or op == 'all' then
    local result = op == 'all'
    for _ = 1, tonumber(take()) do
      local part = holds(doc)
      if op == 'all' then
        result = result and part
      else
        result = result or part
      end
    end
    return result
  end
  local field = take()
  local found = doc and doc[field]
  if op == 'has' then
    return found ~= nil
  end
  local value = resolve(take())
  if not found then
    return false
  elseif op == 'eq' then
    return found == value
  elseif value:sub(1, 2) == 'i:' then
    return notGreater(found, value)
  end
  return notAfter(found, value)
end

-- read returns a document as a table, nil if there is none, and as the list that it came as.
local function read(key)
  local list = redis.call('HGETALL', key)
  if #list == 0 then
    return nil, list
  end
  local doc = {}
  for i = 1, #list, 2 do
    doc[list[i]] = list[i + 1]
  end
  return doc, list
end

-- valueAfter is what a field holds after a change, nil if it is missing then.
local function valueAfter(change, field)
  for j = 1, #change.set, 2 do
    if change.set[j] == field then
      return change.set[j + 1]
    end
  end
  for _, removed in ipairs(change.unset) do
    if removed == field then
      return nil
    end
  end
  return change.before[field]
end

local refused, damaged, changes = {'refused', at, string.format('%.0f', writes)}, nil, {}
local reached, started = 0, false
local ends, tenants = KEYS[2], KEYS[3]
redis.call('ZCARD', ends) -- that they can be written to
redis.call('ZCARD', tenants)

for i = 1, (#KEYS - 3) / 3 do
  local change = {key = KEYS[3 * i + 1], ids = KEYS[3 * i + 2], by = KEYS[3 * i + 3], id = take(), set = {}, unset = {}}
  local doc, list = read(change.key)
  change.new = doc == nil
  change.before = doc or {}
  change.fields = fieldsOf(change.by)
  if #change.fields > 0 then
    redis.call('ZCARD', change.by)
  end
  change.listed = redis.call('ZSCORE', change.ids, change.id)
  if not holds(doc) then
    refused[#refused + 1] = i
    refused[#refused + 1] = list
  end
  local function damage()
    damaged = damaged or {'damaged', at, string.format('%.0f', writes), i, list, string.format('%.0f', floor)}
  end
  local set = change.set
  change.keep = take()
  if change.keep == 'delete' then
    change.delete = true
    for j = 1, #list, 2 do
      change.unset[#change.unset + 1] = list[j]
    end
  else
    for _ = 1, tonumber(take()) do
      local field, value = take(), resolve(take())
      if value:sub(1, 2) == 'c:' then
        value = doc and doc[value:sub(3)] or 's:'
        if value:sub(1, 2) ~= 's:' then
          damage()
        end
      end
      set[#set + 1] = field
      set[#set + 1] = value
    end
    for _ = 1, tonumber(take()) do
      local field, n, starts = take(), tonumber(take()), take() == '1'
      local old = 0
      if doc and doc[field] then
        old = whole(doc[field])
      elseif starts then
        old = math.max(now * 1000, floor)
        started = true
      end
      if not old or n > 0 and old > MAX - n or n < 0 and old < -MAX - n then
        damage()
      else
        set[#set + 1] = field
        set[#set + 1] = string.format('i:%.0f', old + n)
        if starts then
          reached = math.max(reached, old + n)
        end
      end
    end
    for _ = 1, tonumber(take()) do
      change.unset[#change.unset + 1] = take()
    end
    -- A hash without fields is no hash: the mark keeps a document that has none.
    if not doc or not doc['_doc'] then
      set[#set + 1] = '_doc'
      set[#set + 1] = '1'
    end
  end
  changes[i] = change
end

if #refused > 3 then
  return refused
elseif damaged then
  return damaged
end

if reached > floor then
  floor = started and reached or reached + HEADROOM
  count('floor', string.format('%.0f', floor))
else
  count()
end

for _, change in ipairs(changes) do
  local member = change.key:match('^%b{}:doc:(.*)$')
  for _, field in ipairs(change.fields) do
    local before = change.before[field]
    local after = valueAfter(change, field)
    if isText(before) and before ~= after then
      redis.call('ZREM', change.by, entry(field, before, change.id))
    end
    if isText(after) then
      redis.call('ZADD', change.by, 0, entry(field, after, change.id))
    end
  end
  for from = 1, #change.set, CHUNK do
    redis.call('HSET', change.key, unpack(change.set, from, math.min(from + CHUNK - 1, #change.set)))
  end
  for from = 1, #change.unset, CHUNK do
    redis.call('HDEL', change.key, unpack(change.unset, from, math.min(from + CHUNK - 1, #change.unset)))
  end
  if change.delete then
    redis.call('ZREM', ends, member)
    redis.call('ZREM', change.ids, change.id)
    if redis.call('ZCARD', change.ids) == 0 then
      redis.call('ZREM', tenants, (change.ids:match('^%b{}:ids:(.*)$')))
    end
  else
    if not change.listed then
      redis.call('ZADD', change.ids, 0, change.id)
      redis.call('ZADD', tenants, 0, (change.ids:match('^%b{}:ids:(.*)$')))
    end
    if change.keep ~= '' then
      redis.call('ZADD', ends, string.format('%.0f', now + tonumber(change.keep)), member)
    elseif change.new then
      redis.call('ZREM', ends, member) -- of one that was deleted by hand
    end
  end
end

local applied = {'applied', at, string.format('%.0f', writes)}
for _, change in ipairs(changes) do
  applied[#applied + 1] = redis.call('HGETALL', change.key)
end
return applied
