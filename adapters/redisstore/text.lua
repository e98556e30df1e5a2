-- text is a value as text, nil if it is something else. A time, stored as its milliseconds and a half, is docstore.FormatTime.
local function text(value)
  if type(value) == 'string' then
    return value:byte(1, 1) ~= 255 and value or nil
  elseif type(value) ~= 'number' or value % 1 == 0 then
    return nil
  end
  -- The date is found as in H. Hinnant, "chrono-Compatible Low-Level Date Algorithms" (2021), civil_from_days: eras of 400 years, which
  -- begin with a March.
  local floor, ms = math.floor, value - 0.5
  local days, rest = floor(ms / 86400000), ms % 86400000
  local z = days + 719468
  local era, doe = floor(z / 146097), z % 146097
  local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
  local mp = floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', yoe + era * 400 + (month <= 2 and 1 or 0), month, doy - floor((153 * mp + 2) / 5) + 1,
    floor(rest / 3600000), floor(rest / 60000) % 60, floor(rest / 1000) % 60, rest % 1000)
end

-- notAfter compares two whole numbers or two texts, these by their bytes; nothing else is ordered. Lua's own comparison of texts goes by the
-- locale that the server was started in.
local function notAfter(found, value)
  if type(found) == 'number' and type(value) == 'number' then
    return found <= value and found % 1 == value % 1
  end
  local a, b = text(found), text(value)
  if not a or not b then
    return false
  end
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then
      return x < y
    end
  end
  return #a <= #b
end

-- begins reports whether a text begins with another, and has more, but nothing above a ~.
local function begins(found, with)
  local words = text(found)
  if not words or words:sub(1, #with) ~= with then
    return false
  end
  local next = words:byte(#with + 1, #with + 1)
  return next ~= nil and (next < 126 or next == 126 and #words == #with + 1)
end

