#!lua flags=allow-oom
-- Removes members of an index whose documents do not have that text any more: a program of others changed them, or writes passed the
-- index, see kept.lua. Each is looked at again: a write may have come in between.
--
-- KEYS  see begin.lua; then the set of indexes; then the documents
-- ARGV  see begin.lua; then the field; then for each document: its ID, the member
--
-- Returns nothing more.

for i = 3, #KEYS do
  local fine, _, fields = pcall(read, KEYS[i])
  local id, member = args[2 * i - 4], args[2 * i - 3]
  if fine and entry(args[1], fields and fields[args[1]], id) ~= member then
    call('ZREM', KEYS[2], member)
  end
end
return pack('tidied', now, writes)
