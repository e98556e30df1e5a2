-- What every script on documents begins with, but for writes. It stands behind the script's own first line.
--
-- KEYS  first what the store keeps of itself: its generation, the number of writes, the floor, and what index.lua says
-- ARGV  one text, as MessagePack: the time in milliseconds, nil for the server's; the generation that the caller found when it opened
--       the store; the most writes that it knows of; the store's name and the number of its latest write, see wrote.lua; the arguments of
--       the script, a list
--
-- Returns, and does nothing with documents, if this is not what the caller opened, the time, the number of writes and the generation:
--   other    the name is another, or there is none: another server, or one that was emptied
--   back     it has lost writes that it had acknowledged, as the caller knows; it is marked now, for all others
--   lost     it is marked as one that has lost writes
--   raised   tokens were raised since
-- All of these scripts return one text, as MessagePack: an outcome, the time, and the number of writes first. A document stands in it as it
-- is stored, nil where there is none.

local call, pack = redis.call, cmsgpack.pack
local now, wanted, known, me, mine, args = cmsgpack.unpack(ARGV[1])
if not now then
  local time = call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local generation, writes, floor, indexed, indexes, at, writers, least = cmsgpack.unpack(call('GET', KEYS[1]) or '')
$STOP

-- own stores what the store keeps of itself.
local function own()
  call('SET', KEYS[1], pack(generation, writes, floor, indexed, indexes, at, writers, least))
end

-- read returns a document: when it ends, 0 if it does not and false if another program has made it, its fields, and as it is stored. All are nil
-- if there is none. The error is that of a text that is no document.
local function read(key)
  local stored = call('GET', key)
  if not stored then
    return
  end
  local fine, fields, ends = pcall(cmsgpack.unpack, stored)
  if not fine or type(fields) ~= 'table' or type(ends) ~= 'number' and ends ~= false then
    error('DAMAGED ' .. key, 0)
  end
  return ends, fields, stored
end

