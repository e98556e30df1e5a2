#!lua
-- Takes the mark away that writes were lost, after all tokens were raised. New counters start above the highest of them.
--
-- KEYS  see begin.lua
-- ARGV  see begin.lua; then how often tokens were raised by now; the token that all were raised to
--
-- Returns the generation.

generation = string.format('%s.%.0f', (generation:gsub('^lost:', ''):match('^[^.]*')), args[1])
floor = math.max(floor, args[2])
own()
return pack('noted', now, writes, generation)
