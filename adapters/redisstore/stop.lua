-- The latest write of each store, see wrote.lua: its number is 16 digits behind the store's name, 8 letters. One whose name is missing
-- has made none since the write whose number is in front. There is nothing of it before the first write.
writers = writers or ''
local whole = type(writers) == 'string' and (writers == '' or #writers % 24 == 16)
local place = whole and writers:find(me, 1, true)
local latest = writers == '' and 0 or whole and tonumber(place and writers:sub(place + 8, place + 23) or writers:sub(1, 16))
if not latest then
  return redis.error_reply('DAMAGED ' .. KEYS[1])
end
if generation ~= wanted or writes < known or latest < mine then
  -- The generation is a name and how often tokens were raised, as NAME.3; behind lost: once writes were found to be lost, until tokens are
  -- raised again.
  local function parts(text)
    local name, raised = text:gsub('^lost:', ''):match('^([^.]*)%.?(%d*)$')
    return name, tonumber(raised) or 0
  end
  local opened, before = parts(wanted)
  local name, raised = parts(type(generation) == 'string' and generation or '')
  if name ~= opened then
    return pack('other', now, 0, '')
  end
  local outcome = 'lost'
  if generation:sub(1, 5) ~= 'lost:' then
    outcome = 'raised'
    if raised <= before then
      outcome, generation = 'back', string.format('lost:%s.%.0f', name, before)
      call('SET', KEYS[1], pack(generation, writes, floor, indexed, indexes, at, writers, least))
    end
  end
  return pack(outcome, now, writes, generation)
end
