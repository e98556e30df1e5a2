-- serverOf is which server this is: its process, and its part in a replication, which is another once a replica has become the
-- primary. It is nil where the server does not say it, or this user may not ask.
local function serverOf()
  local fine, about = pcall(redis.call, 'INFO', 'server')
  local known, replication = pcall(redis.call, 'INFO', 'replication')
  local process, part = fine and about:match('run_id:(%w+)'), known and replication:match('master_replid:(%w+)')
  return process and part and process .. '.' .. part
end
