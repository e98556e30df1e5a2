$CHANGES
$ENDS
if not listed then
  call('ZADD', ids, 0, id)
  call('ZADD', KEYS[3], 0, (ids:match('^%b{}:ids:(.*)$')))
end
if keep then
  keep()
end
local after = pack(f, ends)
