f = {}
if keep then
  keep()
end
call('GETDEL', key)
call('ZREM', KEYS[2], key:sub(#KEYS[1] + 2)) -- both begin alike, up to own and doc:
call('ZREM', ids, id)
if call('ZCARD', ids) == 0 then
  call('ZREM', KEYS[3], (ids:match('^%b{}:ids:(.*)$')))
end
return pack(nil)
