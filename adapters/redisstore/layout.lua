#!lua
-- Finds out how the documents are laid out, and marks that there are several shards if nothing is there yet. Where there is
-- one, the key is what the store keeps of itself, a text, which claim.lua makes.
--
-- KEYS  the mark
-- ARGV  the number of shards that the caller expects
--
-- Returns the number of shards.

local shards = redis.pcall('ZSCORE', KEYS[1], 'shards')
if type(shards) == 'table' and shards.err then
  if not shards.err:find('WRONGTYPE') then
    return shards
  end
  shards = '1'
elseif not shards then
  shards = ARGV[1]
  if shards ~= '1' then
    redis.call('ZADD', KEYS[1], shards, 'shards')
  end
end
return {shards}
