-- The store of weak-newindex, after catching memory errors until no memory is left.
-- bug: as weak-newindex
-- stock: as weak-newindex
-- expect: any end
local hold, unit, last = {}, ("x"):rep(100000), 0
local function rest() if orrery then orrery.async.sleep(0) end end
local function take()
  while true do
    hold[#hold + 1] = unit .. #hold
    if #hold % 20 == 0 then rest() end
  end
end
local function take_all() pcall(take) end
repeat
  local before = last
  pcall(take_all)
  rest()
  last = collectgarbage("count")
until last == before
local weak = { __mode = "v" }
for _ = 1, 200 do
  pcall(function()
    local mt = setmetatable({}, weak)
    local t = setmetatable({}, mt)
    mt.__newindex = {}
    pcall(function() for i = 1, 1 << 22 do t[i] = i end end)
  end)
  rest()
end
