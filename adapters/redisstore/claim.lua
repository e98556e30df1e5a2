#!lua
-- Gives the store a generation if it has none: it means these documents as long as they are not lost as a whole.
--
-- KEYS  the store's own hash
-- ARGV  a generation
--
-- Returns the generation, the number of writes so far.

redis.call('HSETNX', KEYS[1], 'generation', ARGV[1])
local own = redis.call('HMGET', KEYS[1], 'generation', 'writes')
return {own[1], own[2] or '0'}
