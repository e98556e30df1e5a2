-- notAfter compares texts in their stored form by their bytes; anything else is not ordered with text. Lua's own comparison goes by the
-- locale that the server was started in. Two times mostly share their first half.
local function notAfter(found, text)
  if not found or found:sub(1, 2) ~= 's:' then
    return false
  end
  local from, shorter = 3, math.min(#found, #text)
  if shorter > 16 and found:sub(1, 16) == text:sub(1, 16) then
    from = 17
  end
  for i = from, shorter do
    local x, y = found:byte(i), text:byte(i)
    if x ~= y then
      return x < y
    end
  end
  return #found <= #text
end

