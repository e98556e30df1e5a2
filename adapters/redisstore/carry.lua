#!lua
-- Carries out a write whose script is not worth keeping: the text comes along. A server keeps what it is told by EVAL, version 7.2 and before
-- for as long as it runs; what it is told as an argument it forgets.
--
-- KEYS  those of write.lua
-- ARGV  what write.lua wants to know; its text

return assert(loadstring(ARGV[2], '@write'))()
