-- Applies writes if all of their conditions hold, in one step: shape.go fills in what begins with a $. What a single write does stands in
-- line, because a function takes time to make, each time; several.lua is around what each of several does.
--
-- KEYS  what the store keeps of itself, the ends, the tenants; then for each write: its document, the IDs of its kind and tenant, the
--       indexes of its kind and tenant
-- ARGV  one text, as MessagePack: the time in milliseconds, nil for the server's; the generation that the caller found when it opened the
--       store; the most writes that it knows of; the store's name and the number of its latest write; then, of a single write, its ID and
--       what differs from write to write, in the order of its shape; of several, see several.lua
--
-- Returns an outcome, the time, the number of writes, and
--   applied   for each write the document after; of a single one that says what it wants returned, the values of those fields that its
--             caller does not know
--   refused   for each write whose condition does not hold: its number, the document found
--   damaged   the number of a write that cannot be done, the document found, the floor, and what counters go on from, nil for nothing
--
-- A script that fails half-way is not undone. Hence the order: first everything is read, and checked in full; a key of another type ends the
-- script there. Only then it writes.

local call, pack, unpack, type = redis.call, cmsgpack.pack, cmsgpack.unpack, type
local now, wanted, known, me, mine, $ARGS = unpack(ARGV[1])
if not now then
  local time = call('TIME')
  local micro = tonumber(time[2])
  now = time[1] * 1000 + (micro - micro % 1000) / 1000
end
local all = $READ
local generation, writes, floor, indexed, indexes, at, writers, least = unpack(all[1] or '')
$STOP
local byte = string.byte
$FUNCTIONS
local moment, MAX = now + 0.5, 9007199254740992 -- docstore.MaxInt: up to here Lua's numbers hold every whole number exactly
local started, reached = false, 0
$FOUND
if reached > floor then
  floor = started and reached or reached + $HEADROOM
end
if indexes ~= '' then
  indexed = indexed + 1
end
$WROTE
local own = pack(generation, writes, floor, indexed, indexes, at, writers, least)
$CHANGE
