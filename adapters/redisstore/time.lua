-- format is docstore.FormatTime. The date is found as in H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"
-- (2021), civil_from_days: eras of 400 years, which begin with a March. The times of a write mostly have one.
local dated, date
local function format(ms)
  local days = math.floor(ms / 86400000)
  if days ~= dated then
    local z = days + 719468
    local era = math.floor(z / 146097)
    local doe = z - era * 146097
    local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
    local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
    local mp = math.floor((5 * doy + 2) / 153)
    local month = mp < 10 and mp + 3 or mp - 9
    dated, date = days, string.format('%04d-%02d-%02dT', yoe + era * 400 + (month <= 2 and 1 or 0), month, doy - math.floor((153 * mp + 2) / 5) + 1)
  end
  local rest = ms - days * 86400000
  return date .. string.format('%02d:%02d:%02d.%03dZ',
    math.floor(rest / 3600000), math.floor(rest / 60000) % 60, math.floor(rest / 1000) % 60, rest % 1000)
end

