-- cmsgpack is as much of the library of that name as scripts of Leasehold use: nil, booleans, numbers, texts, lists, and tables by text.
local cmsgpack = {}
do
  local char, sub, byte, floor = string.char, string.sub, string.byte, math.floor

  local function big(n, size)
    local bytes = {}
    for i = size, 1, -1 do
      bytes[i] = char(n % 256)
      n = floor(n / 256)
    end
    return table.concat(bytes)
  end

  local function double(n)
    local sign, mantissa, exponent = n < 0 and 128 or 0, math.frexp(math.abs(n))
    mantissa, exponent = (mantissa * 2 - 1) * 4503599627370496, exponent + 1022
    return char(203, sign + floor(exponent / 16), exponent % 16 * 16 + floor(mantissa / 281474976710656)) .. big(mantissa % 281474976710656, 6)
  end

  local function one(value)
    local is = type(value)
    if is == 'nil' then
      return char(192)
    elseif is == 'boolean' then
      return char(value and 195 or 194)
    elseif is == 'number' then
      if value ~= floor(value) then
        return double(value)
      elseif value >= -32 and value < 128 then
        return char(value % 256)
      end
      for power = 0, 2 do -- as few bytes as it takes
        local range = 256 ^ 2 ^ power
        if value >= 0 and value < range then
          return char(204 + power) .. big(value, 2 ^ power)
        elseif value < 0 and value >= -range / 2 then
          return char(208 + power) .. big(value % range, 2 ^ power)
        end
      end
      return char(value < 0 and 211 or 207) .. big(floor(value / 4294967296) % 4294967296, 4) .. big(value % 4294967296, 4)
    elseif is == 'string' then
      local n = #value
      if n < 32 then
        return char(160 + n) .. value
      elseif n < 256 then
        return char(217, n) .. value
      elseif n < 65536 then
        return char(218) .. big(n, 2) .. value
      end
      return char(219) .. big(n, 4) .. value
    end
    local list, count = {}, 0
    for _ in pairs(value) do
      count = count + 1
    end
    if count == #value then
      for i, v in ipairs(value) do
        list[i] = one(v)
      end
      return (count < 16 and char(144 + count) or count < 65536 and char(220) .. big(count, 2) or char(221) .. big(count, 4)) .. table.concat(list)
    end
    for k, v in pairs(value) do
      list[#list + 1] = one(k) .. one(v)
    end
    return (count < 16 and char(128 + count) or count < 65536 and char(222) .. big(count, 2) or char(223) .. big(count, 4)) .. table.concat(list)
  end

  function cmsgpack.pack(...)
    local packed = {}
    for i = 1, select('#', ...) do
      packed[i] = one((select(i, ...)))
    end
    return table.concat(packed)
  end

  local function number(text, at, size)
    if at + size - 1 > #text then
      error('Missing bytes in input.', 0)
    end
    local n = 0
    for i = at, at + size - 1 do
      n = n * 256 + byte(text, i)
    end
    return n, at + size
  end

  local next

  local function words(text, at, n)
    if at + n - 1 > #text then
      error('Missing bytes in input.', 0)
    end
    return sub(text, at, at + n - 1), at + n
  end

  local function list(text, at, n)
    local t = {}
    for i = 1, n do
      t[i], at = next(text, at)
    end
    return t, at
  end

  local function fields(text, at, n)
    local t = {}
    for _ = 1, n do
      local k, v
      k, at = next(text, at)
      v, at = next(text, at)
      t[k] = v
    end
    return t, at
  end

  function next(text, at)
    local c, n
    c, at = number(text, at, 1)
    if c < 128 then
      return c, at
    elseif c < 144 then
      return fields(text, at, c - 128)
    elseif c < 160 then
      return list(text, at, c - 144)
    elseif c < 192 then
      return words(text, at, c - 160)
    elseif c >= 224 then
      return c - 256, at
    elseif c == 192 then
      return nil, at
    elseif c == 194 or c == 195 then
      return c == 195, at
    elseif c == 203 then
      local high, low
      high, at = number(text, at, 4)
      low, at = number(text, at, 4)
      local sign = high >= 2147483648 and -1 or 1
      local exponent, mantissa = floor(high / 1048576) % 2048, high % 1048576 * 4294967296 + low
      return sign * math.ldexp(1 + mantissa / 4503599627370496, exponent - 1023), at
    elseif c >= 204 and c <= 206 then
      return number(text, at, 2 ^ (c - 204))
    elseif c >= 208 and c <= 210 then
      n, at = number(text, at, 2 ^ (c - 208))
      local range = 256 ^ 2 ^ (c - 208)
      return n >= range / 2 and n - range or n, at
    elseif c == 207 or c == 211 then
      local high, low
      high, at = number(text, at, 4)
      low, at = number(text, at, 4)
      return (c == 211 and high >= 2147483648 and high - 4294967296 or high) * 4294967296 + low, at
    elseif c == 217 or c == 218 or c == 219 then
      n, at = number(text, at, 2 ^ (c - 217))
      return words(text, at, n)
    elseif c == 220 or c == 221 then
      n, at = number(text, at, 2 ^ (c - 219))
      return list(text, at, n)
    elseif c == 222 or c == 223 then
      n, at = number(text, at, 2 ^ (c - 221))
      return fields(text, at, n)
    end
    error('Bad data format in input.', 0)
  end

  function cmsgpack.unpack(text)
    local values, n, at = {}, 0, 1
    while at <= #text do
      n = n + 1
      values[n], at = next(text, at)
    end
    return unpack(values, 1, n)
  end

  rawset(_G, 'cmsgpack', cmsgpack) -- for scripts that a script loads
end

