#!lua flags=allow-oom
-- Reads documents, all of one instant. It changes nothing, and yet is not flagged no-writes, so that a replica,
-- whose documents may be old, rejects it.
--
-- KEYS  see begin.lua; then the documents
--
-- Returns the documents.

local answer = {pack('read', now, writes)}
for i = 2, #KEYS do
  answer[i] = call('GET', KEYS[i]) or pack(nil)
end
return table.concat(answer)
