writes = writes + 1
if writers == '' then
  writers = '0000000000000000'
elseif place then
  writers = writers:sub(1, place - 1) .. writers:sub(place + 24)
elseif #writers == 400 then
  writers = writers:sub(-16) .. writers:sub(17, -25) -- of 16 stores, the one that has not written for longest is forgotten
end
writers = writers:sub(1, 16) .. me .. string.format('%016.0f', writes) .. writers:sub(17)
