#!lua
-- Applies writes if all of their conditions hold, in one step.
--
-- KEYS  see begin.lua; then the ends, the tenants; then for each write: its document, the IDs of its kind and tenant, the indexes of
--       its kind and tenant
-- ARGV  see begin.lua; then for each write a list:
--         its ID
--         its condition, a list of an operator and its operands: absent | has F | eq F V | le F V | any C … | all C … | not C
--         the time in milliseconds up to which it is applied, and from one hour before, 0 for no end
--         how many milliseconds to keep the document, 0 to leave that as it is; nothing more if it is to be deleted
--         a list of fields and the values to set
--         a list of fields, the numbers to add, and whether they start at the time where they are missing
--         a list of fields to remove
--       A list in place of a value is {ms}, the time of the write plus so many milliseconds, or {'', F}, the text that the field F
--       had before.
--
-- Returns an outcome, the time, the number of writes, and
--   applied   for each write the document after
--   refused   for each write whose condition does not hold: its number, the document found
--   damaged   the number of a write that cannot be done, the document found, the floor
--
-- A script that fails half-way is not undone. Hence the order: first everything is read, and checked in full; a key of
-- another type ends the script there. Only then it writes.

local HEADROOM = 1000        -- see shape.go
local AHEAD = 3600000        -- docstore.MaxAhead
local MAX = 9007199254740992 -- docstore.MaxInt: up to here Lua's numbers hold every whole number exactly

local function resolve(value)
  if type(value) == 'table' and #value == 1 then
    return now + value[1] + 0.5
  end
  return value
end

-- holds evaluates a condition.
local function holds(cond, doc)
  local op, field = cond[1], cond[2]
  if op == 'absent' then
    return doc == nil
  elseif op == 'not' then
    return not holds(field, doc)
  elseif op == 'any' or op == 'all' then
    for i = 2, #cond do
      if holds(cond[i], doc) == (op == 'any') then
        return op == 'any'
      end
    end
    return op == 'all'
  end
  local found
  if doc then
    found = doc[field]
  end
  if op == 'has' then
    return found ~= nil
  elseif op == 'eq' then
    return found == resolve(cond[3])
  end
  return notAfter(found, resolve(cond[3]))
end

local refused, damaged, changes = {}, nil, {}
local reached, started = 0, false
local ends, tenants = KEYS[2], KEYS[3]
call('ZCARD', ends) -- that they can be written to
call('ZCARD', tenants)

for i = 1, (#KEYS - 3) / 3 do
  local id, cond, latest, keep = args[i][1], args[i][2], args[i][3], args[i][4]
  local set, add, unset = args[i][5], args[i][6], args[i][7]
  local change = {key = KEYS[3 * i + 1], ids = KEYS[3 * i + 2], by = KEYS[3 * i + 3], id = id, keep = keep}
  local ending, doc, stored = read(change.key)
  change.listed, change.ends = ending, ending or 0
  change.fields = fieldsOf(change.by)
  if #change.fields > 0 then
    call('ZCARD', change.by)
  end
  call('ZCARD', change.ids)
  if latest ~= 0 and (now > latest or now < latest - AHEAD) or not holds(cond, doc) then
    refused[#refused + 1] = pack(i) .. (stored or pack(nil))
  end
  local function damage()
    damaged = damaged or pack('damaged', now, writes, i) .. (stored or pack(nil)) .. pack(floor)
  end
  local before = doc or {}
  change.before = before
  if keep then
    local after = {}
    for field, value in pairs(before) do
      after[field] = value
    end
    for j = 1, #set, 2 do
      local value = resolve(set[j + 1])
      if type(value) == 'table' then
        value = before[value[2]]
        if value == nil then
          value = ''
        elseif not text(value) then
          damage()
        end
      end
      after[set[j]] = value
    end
    for j = 1, #add, 3 do
      local field, n, starts = add[j], add[j + 1], add[j + 2]
      local old = before[field]
      if old == nil then
        old = 0
        if starts then
          old, started = math.max(now * 1000, floor), true
        end
      end
      if type(old) ~= 'number' or old % 1 ~= 0 or n > 0 and old > MAX - n or n < 0 and old < -MAX - n then
        damage()
      else
        after[field] = old + n
        if starts then
          reached = math.max(reached, old + n)
        end
      end
    end
    for _, field in ipairs(unset) do
      after[field] = nil
    end
    change.after = after
  end
  changes[i] = change
end

if #refused > 0 then
  return pack('refused', now, writes) .. table.concat(refused)
elseif damaged then
  return damaged
end

if reached > floor then
  floor = started and reached or reached + HEADROOM
end
count()

local applied = {pack('applied', now, writes)}
for i, change in ipairs(changes) do
  local member = change.key:match('^%b{}:doc:(.*)$')
  for _, field in ipairs(change.fields) do
    reindex(change.by, field, change.id, change.before[field], change.after and change.after[field])
  end
  if not change.after then
    call('GETDEL', change.key)
    call('ZREM', ends, member)
    call('ZREM', change.ids, change.id)
    if call('ZCARD', change.ids) == 0 then
      call('ZREM', tenants, (change.ids:match('^%b{}:ids:(.*)$')))
    end
    applied[i + 1] = pack(nil)
  else
    if not change.listed then
      call('ZADD', change.ids, 0, change.id)
      call('ZADD', tenants, 0, (change.ids:match('^%b{}:ids:(.*)$')))
    end
    if change.keep > 0 then
      change.ends = now + change.keep
      call('ZADD', ends, string.format('%.0f', change.ends), member)
    elseif not change.listed then
      call('ZREM', ends, member) -- of one that was deleted by hand
    end
    applied[i + 1] = pack(change.after, change.ends)
    call('SET', change.key, applied[i + 1])
  end
end
return table.concat(applied)
