-- count counts a write that keeps the indexes.
local function count()
  writes, indexed = writes + 1, indexed + 1
  own()
end

