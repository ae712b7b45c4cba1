-- A replacement that makes the string a thousand times longer each time.
-- expect: ok
local s, long = "xx", ("x"):rep(1000)
local ok = pcall(function()
  while true do s = s:gsub("x", long) end
end)
assert(not ok and #s <= 8 << 20)
