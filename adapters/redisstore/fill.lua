#!lua
-- Puts documents into an index, each as it is now.
--
-- KEYS  see begin.lua; then the set of indexes; then the documents
-- ARGV  see begin.lua; then the field; then the IDs
--
-- Returns nothing more.

call('ZCARD', KEYS[2])
for i = 3, #KEYS do
  local fine, _, fields = pcall(read, KEYS[i]) -- what another program has put there has no text in a field
  if fine and fields then
    reindex(KEYS[2], args[1], args[i - 1], nil, fields[args[1]])
  end
end
return pack('filled', now, writes)
