-- count counts a write that keeps the indexes.
local function count()
$WROTE
  indexed = indexed + 1
  own()
end

