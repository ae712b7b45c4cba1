-- A traversal that adds to the table it traverses.
-- expect: error .
local t = { a = 1 }
for k in next, t do
  t[k] = nil
  t[k .. "x"] = 1
end
error("ended by itself")
