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

local MAX = 9007199254740992 -- docstore.MaxInt: up to here Lua's numbers hold every whole number exactly
local CHUNK = 1000           -- arguments that go into one command: unpack is limited by Lua's stack
local HEADROOM = 1000        -- how far the floor is set above a counter that passes it, so that it need not follow each grant

-- format is docstore.FormatTime. The date is found as in H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"
-- (2021), civil_from_days: eras of 400 years, which begin with a March.
local function format(ms)
  local days = math.floor(ms / 86400000)
  local rest = ms - days * 86400000
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * mp + 2) / 5) + 1
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, month, day,
    math.floor(rest / 3600000), math.floor(rest / 60000) % 60, math.floor(rest / 1000) % 60, rest % 1000)
end

local function resolve(value)
  if value:sub(1, 2) == 't:' then
    return 's:' .. format(now + tonumber(value:sub(3)))
  end
  return value
end

-- whole is the number of a stored value, nil if it is no whole number within ±MAX in its one spelling.
local function whole(value)
  local n = tonumber(value:match('^i:(-?[1-9]%d*)$') or value:match('^i:(0)$'))
  if n and n >= -MAX and n <= MAX and string.format('i:%.0f', n) == value then
    return n
  end
end

-- notAfter compares texts by their bytes. Lua's own comparison goes by the locale that the server was started in.
local function notAfter(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then
      return x < y
    end
  end
  return #a <= #b
end

local function notGreater(a, b)
  local kind = b:sub(1, 2)
  if a:sub(1, 2) ~= kind then
    return false
  elseif kind == 'i:' then
    local x = whole(a)
    return x ~= nil and x <= whole(b)
  end
  return notAfter(a, b)
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
  end
  return notGreater(found, value)
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
