
-- count is what a write that keeps the indexes stores beside its documents.
local function count(...)
  writes = writes + 1
  redis.call('HSET', KEYS[1], 'writes', string.format('%.0f', writes), 'indexed', string.format('%.0f', indexed + 1), ...)
end

