-- Fills the memory to the last byte, then raises, formats, resumes, closes: the host survives.
-- expect: any end
local hold = table.pack(table.unpack({}, 1, 20000))
local co = coroutine.create(function()
  local _ <close> = setmetatable({}, { __close = function() error("in close") end })
  coroutine.yield()
end)
coroutine.resume(co)
local i, size, object, unit = 0, 1 << 20, {}, ("x"):rep(64)
local function take() hold[i + 1] = unit:rep(size // 64) i = i + 1 end
local function handler(e) error(e) end
while size >= 64 do
  if not pcall(take) then size = size // 2 end
end
pcall(orrery.async.sleep, 0)
pcall(error, object)
pcall(string.format, "%s", i)
pcall(coroutine.wrap, print)
pcall(coroutine.close, co)
pcall(xpcall, error, handler, 1)
hold = nil
orrery.async.sleep(0)
repeat until collectgarbage("step") -- buffers in C do not collect when they find no memory
assert(#("x"):rep(1 << 20) == 1 << 20)
