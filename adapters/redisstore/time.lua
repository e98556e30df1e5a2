-- format is docstore.FormatTime. The date is found as in H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"
-- (2021), civil_from_days: eras of 400 years, which begin with a March. The times of a write mostly have one. Quotients are of numbers that are
-- divided without a rest, because math.floor takes as long as all of it.
local dated, date
local function format(ms)
  local rest = ms % 86400000
  local days = (ms - rest) / 86400000
  if days ~= dated then
    local z = days + 719468
    local doe = z % 146097
    local doe1460, doe36524, doe146096 = doe - doe % 1460, doe - doe % 36524, doe - doe % 146096
    local yoe = doe - doe1460 / 1460 + doe36524 / 36524 - doe146096 / 146096
    yoe = (yoe - yoe % 365) / 365
    local doy = doe - (365 * yoe + (yoe - yoe % 4) / 4 - (yoe - yoe % 100) / 100)
    local mp = 5 * doy + 2
    mp = (mp - mp % 153) / 153
    local begun = 153 * mp + 2
    local month = mp < 10 and mp + 3 or mp - 9
    local year = yoe + (z - doe) / 146097 * 400
    if month <= 2 then
      year = year + 1
    end
    dated, date = days, string.format('%04d-%02d-%02dT', year, month, doy - (begun - begun % 5) / 5 + 1)
  end
  local milli, second, minute = rest % 1000, rest % 60000, rest % 3600000
  return date .. string.format('%02d:%02d:%02d.%03dZ', (rest - minute) / 3600000, (minute - second) / 60000, (second - milli) / 1000, milli)
end

