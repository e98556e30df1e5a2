local MAX = 9007199254740992 -- docstore.MaxInt: up to here Lua's numbers hold every whole number exactly

-- whole is the number of a stored value, nil if it is no whole number within ±MAX in its one spelling. Beyond MAX several spellings are one number, which
-- only MAX itself is not beyond.
local function whole(value)
  local n = tonumber(value:match('^i:(-?[1-9]%d*)$') or value:match('^i:(0)$'))
  if n and (n > -MAX and n < MAX or (n == MAX or n == -MAX) and string.format('i:%.0f', n) == value) then
    return n
  end
end

-- notGreater compares whole numbers in their stored form.
local function notGreater(found, number)
  local n = found and whole(found)
  return n and n <= whole(number) or false
end

